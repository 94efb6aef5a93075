// SPDX-License-Identifier: Apache-2.0
//
// `callout cat`: prints what a sink wrote, as JSON lines, CSV or a summary.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace callout::tools {

struct CatOptions {
  std::string path;
  std::string format = "jsonl";                         ///< "jsonl", "csv" or "summary".
  int64_t limit = std::numeric_limits<int64_t>::max();  ///< The most rows that are printed.
};

/// Returns the exit code of the process: 0; 1 if the output cannot be written; 2 if the file is missing or damaged.
int Cat(const CatOptions& options);

}  // namespace callout::tools
