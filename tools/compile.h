// SPDX-License-Identifier: Apache-2.0
//
// `callout compile`: puts a compiled program into a cache. A child process compiles, because a bad program may crash
// the compiler.
#pragma once

#include <string>

#include "session.h"

namespace callout::tools {

struct CompileOptions {
  std::string program;
  std::string cache;
  PluginChoice plugin;
  int device_count = 0;
};

/// Forks a child that loads the plugin and fills the cache, and that ends if this process does. Blocks until the child
/// has ended. Returns the exit code, in both processes: 0, or 2 with the reason on standard error. Must be called
/// before the process starts a thread.
int Compile(const CompileOptions& options);

}  // namespace callout::tools
