// SPDX-License-Identifier: Apache-2.0
//
// The output of the command on standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/pjrt/host_callback.h"
#include "comparison.h"
#include "npz.h"
#include "times.h"

namespace callout::tools {

/// Prints each array as NumPy does, with its number and type if there are several.
void PrintResults(const NamedArrays& results);

/// Prints a line for each callback: its kind, its number of calls, its time.
void PrintStatistics();

/// The contents of `--json`'s output.
struct JsonReport {
  const NamedArrays& results;
  const char* cache;  ///< "hit" or "miss"; null: there is no cache.
  const Times& times;
  const std::vector<Comparison>* comparisons;  ///< Null: there were no expected results.
  bool as_expected;
};

/// Prints one object: "results" (types and nested lists), "cache", "comparison", the members of Times, and "callbacks"
/// with their counters.
void PrintJson(const JsonReport& report);

/// Writes PrometheusText to a file. Errors have the path.
Status WriteMetrics(const std::string& path);

/// Ends the trace, and writes it to a file. Errors have the path.
Status WriteTrace(const std::string& path);

/// Prints rows. Each column is as wide as its widest entry; all columns but the first are right-aligned.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

/// Returns "12.3 us".
std::string DurationText(double nanoseconds);

}  // namespace callout::tools
