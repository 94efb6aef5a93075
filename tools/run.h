// SPDX-License-Identifier: Apache-2.0
//
// `callout run`: compiles a program with callbacks from the command line, runs it, prints what it returns.
#pragma once

#include <string>
#include <vector>

#include "comparison.h"
#include "session.h"

namespace callout::tools {

struct RunOptions {
  std::string program;
  PluginChoice plugin;
  int device_count = 0;  ///< 0: as many as the program was exported for.
  std::vector<std::string> arguments;
  std::vector<std::string> bindings;
  std::vector<std::string> expected;  ///< Results, as arguments are given; empty: nothing is compared.
  Tolerances tolerances;
  std::string output;
  int repeat = 1;
  int warm_up = 0;  ///< Runs before those that are measured.
  double min_seconds = 0;
  int concurrency = 1;  ///< Threads that run it.
  bool stats = false;
  std::string trace;
  std::string metrics;
  std::string cache;  ///< A folder of compiled programs; empty: none.
  bool json = false;
  bool refuses_embedded_code = false;  ///< False: as CALLOUT_EMBEDDED_CODE says.
};

/// Returns the process's exit code: 0; 1 if the program or a callback failed, or a result is not as expected; 2 if what
/// was given cannot be run.
int Run(const RunOptions& options);

}  // namespace callout::tools
