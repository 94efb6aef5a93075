// SPDX-License-Identifier: Apache-2.0
//
// Which columns of a CSV file a record fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// What stands in a cell: one of the record's own fields, or nothing; or in several: elements of a leaf.
struct CsvCells {
  enum class Kind { kName, kStep, kDevice, kRun, kSeq, kTime, kElements, kEmpty };

  Kind kind = Kind::kEmpty;
  size_t leaf = 0;
  int64_t element = 0;  ///< The first.
  int64_t count = 1;
};

/// More elements than that of one leaf are no columns.
inline constexpr int64_t kMaxCsvElements = 64;

/// The columns that a record's leaves have in its order, behind its own fields. InvalidArgument for large arrays, and
/// for two columns of one name.
Result<std::vector<std::string>> CsvColumnsOf(const Record& record);

/// What a record writes to `columns`. `chosen`: leaves without a column are left out, as long as one has one;
/// otherwise they are an InvalidArgument.
Result<std::vector<CsvCells>> CsvCellsOf(const Record& record, const std::vector<std::string>& columns, bool chosen);

/// InvalidArgument for two columns of one name, and for one without a name.
Status CheckCsvColumns(const std::vector<std::string>& columns);

}  // namespace callout::internal
