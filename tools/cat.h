// SPDX-License-Identifier: Apache-2.0
//
// `callout cat`: what a sink wrote, as JSON lines, CSV or a summary.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace callout::tools {

struct CatOptions {
  std::string path;
  std::string format = "jsonl";                         ///< Or "csv" or "summary".
  int64_t limit = std::numeric_limits<int64_t>::max();  ///< Rows.
};

/// Returns the process's exit code: 0; 1 if the output cannot be written; 2 if there is no such file, or a damaged one.
int Cat(const CatOptions& options);

}  // namespace callout::tools
