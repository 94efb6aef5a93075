// SPDX-License-Identifier: Apache-2.0
//
// CSV files (RFC 4180): lines, the columns that a record fills, and the contents of a file that is appended to. A cell
// never has a line break, so each record is one line.
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

/// Appends a cell, quoted if necessary. Line feeds become the two characters "\n".
CALLOUT_EXPORT void AppendCsvCell(std::string_view text, std::string& out);

/// Returns a line with its line feed.
std::string CsvLine(const std::vector<std::string>& cells);

/// Returns nothing if a quote is misplaced. `line` has no line feed; a carriage return at its end is dropped.
CALLOUT_EXPORT std::optional<std::vector<std::string>> ParseCsvLine(std::string_view line);

/// The contents of one cell (a field of the record, or nothing), or of several (elements of a leaf).
struct CsvCells {
  enum class Kind { kName, kStep, kDevice, kRun, kSeq, kTime, kElements, kEmpty };

  Kind kind = Kind::kEmpty;
  size_t leaf = 0;
  int64_t element = 0;  ///< The first element.
  int64_t count = 1;
};

/// A leaf with more elements cannot be spread over columns.
inline constexpr int64_t kMaxCsvElements = 64;

/// Returns the columns for a record's leaves, in their order, without the record's own fields. InvalidArgument for
/// large arrays, and for two columns of one name.
Result<std::vector<std::string>> CsvColumnsOf(const Record& record);

/// Returns the cells that a record writes to `columns`. With `chosen`, leaves without a column are left out, provided
/// that one leaf has a column; without, they are an InvalidArgument.
Result<std::vector<CsvCells>> CsvCellsOf(const Record& record, const std::vector<std::string>& columns, bool chosen);

/// InvalidArgument for two columns of one name, and for a column without a name.
Status CheckCsvColumns(const std::vector<std::string>& columns);

struct CsvContents {
  std::vector<std::string> columns;
  StepCounter steps;  ///< Continues after the last step of each name.
};

/// Reads the whole lines in the first `size` bytes of a file that is open for reading. InvalidArgument if its columns
/// differ from `wanted`, unless that is empty.
Status ReadCsvContents(int fd, uint64_t size, const std::vector<std::string>& wanted, CsvContents& contents);

}  // namespace callout::internal
