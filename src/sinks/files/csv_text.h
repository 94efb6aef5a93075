// SPDX-License-Identifier: Apache-2.0
//
// Lines of CSV files (RFC 4180). A cell never has a line break, so that a line is a record.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

/// Quoted where it has to be; line feeds become the two characters "\n".
CALLOUT_EXPORT void AppendCsvCell(std::string_view text, std::string& out);

/// A line with its line feed.
std::string CsvLine(const std::vector<std::string>& cells);

/// Nothing if quotes are where none may be. `line` is without its line feed; a carriage return at its end is dropped.
CALLOUT_EXPORT std::optional<std::vector<std::string>> ParseCsvLine(std::string_view line);

}  // namespace callout::internal
