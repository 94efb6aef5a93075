// SPDX-License-Identifier: Apache-2.0
//
// How long runs took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace callout::tools {

/// The times of measured runs; warm-up is not among them.
struct Times {
  std::vector<int64_t> nanoseconds;  ///< Of each run, in the order in which they began.
  int64_t wall_nanoseconds = 0;      ///< From the first's begin to the last's end.

  double RunsPerSecond() const;
};

/// Nearest rank: the least number that `percent` of a hundred are not above. `sorted` is not empty.
int64_t Percentile(const std::vector<int64_t>& sorted, int percent);

/// "ran 100 times: median (p50) 12 us, p90 ..., p99 ..., least ..., first ..., 81000 runs a second", on standard
/// output.
void PrintTimes(const Times& times);

/// As members of an object: "nanoseconds", "percentiles", "runs_per_second".
void AppendJson(const Times& times, std::string& text);

}  // namespace callout::tools
