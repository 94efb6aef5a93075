// SPDX-License-Identifier: Apache-2.0
//
// What the command prints on standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/pjrt/host_callback.h"
#include "comparison.h"
#include "npz.h"
#include "times.h"

namespace callout::tools {

/// Each array as NumPy prints it; with its number and type where there are several.
void PrintResults(const NamedArrays& results);

/// A line for each callback: what ran, how often, how long.
void PrintStatistics();

/// What `--json` prints.
struct JsonReport {
  const NamedArrays& results;
  const char* cache;  ///< "hit", "miss"; null: there is none.
  const Times& times;
  const std::vector<Comparison>* comparisons;  ///< Null: nothing was expected.
  bool as_expected;
};

/// One object: "results" (types and nested lists), "cache", "comparison", the members of Times, and "callbacks" with
/// their counters.
void PrintJson(const JsonReport& report);

/// PrometheusText in a file. Errors: with the path.
Status WriteMetrics(const std::string& path);

/// Ends the trace, into a file. Errors: with the path.
Status WriteTrace(const std::string& path);

/// Prints rows below each other, columns as wide as their widest entry, all but the first to the right.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

/// "12.3 us".
std::string DurationText(double nanoseconds);

}  // namespace callout::tools
