// SPDX-License-Identifier: Apache-2.0
//
// What the command prints on standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/pjrt/host_callback.h"
#include "npz.h"

namespace callout::tools {

/// Each array as NumPy prints it; with its number and type where there are several.
void PrintResults(const NamedArrays& results);

/// A line for each callback: what ran, how often, how long.
void PrintStatistics();

/// Of runs, in nanoseconds.
void PrintTimes(std::vector<int64_t> nanoseconds);

/// One object: "results" (types and nested lists), "cache" (`cache`, or null), "nanoseconds" of each run, and
/// "callbacks" with their counters.
void PrintJson(const NamedArrays& results, const char* cache, const std::vector<int64_t>& nanoseconds);

/// Prints rows below each other, columns as wide as their widest entry, all but the first to the right.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

/// "12.3 us".
std::string DurationText(double nanoseconds);

}  // namespace callout::tools
