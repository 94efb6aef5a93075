// SPDX-License-Identifier: Apache-2.0
//
// CSV files (RFC 4180): their lines, which columns a record fills, and what a file holds that is appended to. A cell
// never has a line break, so a line is a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/step_counter.h"

namespace callout::internal {

/// Quoted where it has to be; line feeds become the two characters "\n".
CALLOUT_EXPORT void AppendCsvCell(std::string_view text, std::string& out);

/// A line with its line feed.
std::string CsvLine(const std::vector<std::string>& cells);

/// Nothing if quotes are where none may be. `line` is without its line feed; a carriage return at its end is dropped.
CALLOUT_EXPORT std::optional<std::vector<std::string>> ParseCsvLine(std::string_view line);

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

struct CsvContents {
  std::vector<std::string> columns;
  StepCounter steps;  ///< Behind the last step of each name.
};

/// Reads the first `size` bytes, whole lines, of a file that is open for reading. InvalidArgument if its columns are
/// not `wanted`, which may be empty for any.
Status ReadCsvContents(int fd, uint64_t size, const std::vector<std::string>& wanted, CsvContents& contents);

}  // namespace callout::internal
