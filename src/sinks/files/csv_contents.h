// SPDX-License-Identifier: Apache-2.0
//
// What a CSV file holds that is appended to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/status.h"
#include "sinks/step_counter.h"

namespace callout::internal {

struct CsvContents {
  std::vector<std::string> columns;
  StepCounter steps;  ///< Behind the last step of each name.
};

/// Reads the first `size` bytes, whole lines, of a file that is open for reading. InvalidArgument if its columns are
/// not `wanted`, which may be empty for any.
Status ReadCsvContents(int fd, uint64_t size, const std::vector<std::string>& wanted, CsvContents& contents);

}  // namespace callout::internal
