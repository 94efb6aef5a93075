// SPDX-License-Identifier: Apache-2.0
//
// The durations of runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace callout::tools {

/// The times of measured runs, without warm-up runs.
struct Times {
  std::vector<int64_t> nanoseconds;  ///< The duration of each run, in the order of their begins.
  int64_t wall_nanoseconds = 0;      ///< The time from the begin of the first run to the end of the last one.

  double RunsPerSecond() const;
};

/// Returns the nearest-rank percentile: the least number that is not below `percent` of a hundred numbers. Requires a
/// nonempty `sorted`.
int64_t Percentile(const std::vector<int64_t>& sorted, int percent);

/// Prints "ran 100 times: median (p50) 12 us, p90 ..., p99 ..., least ..., first ..., 81000 runs a second" on standard
/// output.
void PrintTimes(const Times& times);

/// Appends members of an object: "nanoseconds", "percentiles", "runs_per_second".
void AppendJson(const Times& times, std::string& text);

}  // namespace callout::tools
