// SPDX-License-Identifier: Apache-2.0
//
// `callout compile`: puts a compiled program into a cache, compiled by a child process that a bad program may crash.
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

/// The plugin reads and compiles the program in a child process (CompileOptions::process of the host). Returns the
/// process's exit code: 0, or 2 with the reason on standard error.
int Compile(const CompileOptions& options);

}  // namespace callout::tools
