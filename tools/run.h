// SPDX-License-Identifier: Apache-2.0
//
// `callout run`: compiles and runs a program with callbacks, and prints its results.
#pragma once

#include <string>
#include <vector>

#include "comparison.h"
#include "session.h"

namespace callout::tools {

struct RunOptions {
  std::string program;
  PluginChoice plugin;
  int device_count = 0;  ///< 0: the number that the program was exported for.
  std::vector<std::string> arguments;
  std::vector<std::string> bindings;
  std::vector<std::string> expected;  ///< Expected results, in the form of arguments; empty: no comparison.
  Tolerances tolerances;
  std::string output;
  int repeat = 1;
  int warm_up = 0;  ///< Runs before the measured ones.
  double min_seconds = 0;
  int concurrency = 1;  ///< The number of threads that run the program.
  bool stats = false;
  std::string trace;
  std::string metrics;
  std::string cache;  ///< A folder of compiled programs; empty: no cache.
  bool json = false;
  bool refuses_embedded_code = false;  ///< False: CALLOUT_EMBEDDED_CODE decides.
};

/// Returns the exit code of the process: 0; 1 if the program or a callback failed, or a result differs from the
/// expected one; 2 if the program cannot be run with these options.
int Run(const RunOptions& options);

}  // namespace callout::tools
