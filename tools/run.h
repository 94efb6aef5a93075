// SPDX-License-Identifier: Apache-2.0
//
// `callout run`: compiles a program with callbacks from the command line, runs it, prints what it returns.
#pragma once

#include <string>
#include <vector>

namespace callout::tools {

struct RunOptions {
  std::string program;
  std::string plugin;
  int device_count = 0;  ///< 0: as many as the program was exported for.
  std::vector<std::string> arguments;
  std::vector<std::string> bindings;
  std::vector<std::string> handlers;
  std::string output;
  int repeat = 1;
  bool stats = false;
  std::string trace;
  std::string cache;  ///< A folder of compiled programs; empty: none.
  bool json = false;
};

/// Returns the process's exit code: 0; 1 if the program or a callback failed; 2 if what was given cannot be run.
int Run(const RunOptions& options);

}  // namespace callout::tools
