// SPDX-License-Identifier: Apache-2.0
//
// Format strings as Python's `str.format` reads them: text, "{{", "}}" and {name!s:spec}.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "sinks/text/format_spec.h"

namespace callout::internal {

struct FormatField {
  std::string name;      ///< As a leaf's path: "a.b" for {a.b} and {a[b]}, a number for {} and {0}.
  size_t position = 0;   ///< Of its '{' in the string.
  bool as_text = false;  ///< {name!s}
  std::string spec_text;
  FormatSpec spec;
  bool is_time = false;  ///< The specification is one of strftime.
};

struct FormatPiece {
  std::string text;                  ///< Before the field.
  std::optional<FormatField> field;  ///< None in the last piece.
};

/// InvalidArgument, with the position, for a malformed string. Thread-safe.
CALLOUT_EXPORT Result<std::vector<FormatPiece>> ParseFormatString(std::string_view format);

/// An error about what stands at `position` of `format`.
Status FormatError(std::string_view format, size_t position, const std::string& what);

}  // namespace callout::internal
