// SPDX-License-Identifier: Apache-2.0
//
// Whether a file descriptor is a terminal, and what it can do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// True for a terminal that understands escape sequences (TERM is neither "dumb" nor empty).
bool IsCapableTerminal(int fd);

/// As IsCapableTerminal, unless the user wants no colours (NO_COLOR, see no-color.org).
bool WantsColours(int fd);

/// Columns of the terminal; 0 if it does not say.
size_t TerminalColumns(int fd);

/// One line of at most `columns` columns, a code point each; 0: of any length. New lines become spaces. Colours take no
/// place, and end where the line is cut.
CALLOUT_EXPORT std::string FitOnLine(std::string_view text, size_t columns);

}  // namespace callout::internal
