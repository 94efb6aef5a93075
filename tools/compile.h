// SPDX-License-Identifier: Apache-2.0
//
// `callout compile`: puts a compiled program into a cache, from a child process that a bad program may crash.
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

/// Reads and compiles in a child process, so that a crash there is an error of its own. Returns the process's exit
/// code: 0, or 2 with the reason on standard error. No thread may be running yet.
int Compile(const CompileOptions& options);

}  // namespace callout::tools
