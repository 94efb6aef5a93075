// SPDX-License-Identifier: Apache-2.0
//
// Format strings and format specifications of Python's `str.format`: text, "{{", "}}" and {name!s:spec};
// [[fill]align][sign][z][#][0][width][grouping][.precision][type].
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

struct FormatSpec {
  std::string fill = " ";  ///< One code point of UTF-8.
  char align = 0;          ///< '<', '>', '=', '^'; 0: the default of the value's kind.
  char sign = 0;           ///< '+', '-', ' '; 0: not given, means '-'.
  bool no_negative_zero = false;
  bool alternate = false;
  int width = 0;
  char grouping = 0;   ///< ',' or '_'.
  int precision = -1;  ///< -1: not given.
  char type = 0;       ///< 0: not given.
};

enum class FormatKind { kBool, kInteger, kFloat, kComplex, kText };

/// Parses a specification. InvalidArgument, in Python's words, if no type has such a specification. All functions of
/// this file are thread-safe.
CALLOUT_EXPORT Result<FormatSpec> ParseFormatSpec(std::string_view text);
/// InvalidArgument, in Python's words, if the specification does not apply to values of `kind`.
CALLOUT_EXPORT Status CheckFormatSpec(const FormatSpec& spec, FormatKind kind);

/// Appends what Python's `format(value, spec)` returns. Requires a `spec` that CheckFormatSpec accepts for the value's
/// kind.
CALLOUT_EXPORT void AppendFormatted(int64_t value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(uint64_t value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(double value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(std::complex<double> value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(std::string_view value, const FormatSpec& spec, std::string& out);

/// Appends the shortest digits that read back as the same number, with an exponent outside of 1e-4 ... 1e16. This is
/// what `str(value)` returns for NumPy's scalars (for float32 from 1e6 on: before NumPy 2.3).
CALLOUT_EXPORT void AppendShortest(float value, std::string& out);
CALLOUT_EXPORT void AppendShortest(double value, std::string& out);
CALLOUT_EXPORT void AppendShortest(std::complex<float> value, std::string& out);
CALLOUT_EXPORT void AppendShortest(std::complex<double> value, std::string& out);

struct FormatField {
  std::string name;      ///< A leaf's path: "a.b" for {a.b} and {a[b]}, a number for {} and {0}.
  size_t position = 0;   ///< The position of the field's '{' in the string.
  bool as_text = false;  ///< {name!s}
  std::string spec_text;
  FormatSpec spec;
  bool is_time = false;  ///< The specification is one of strftime's.
};

struct FormatPiece {
  std::string text;                  ///< The text before the field.
  std::optional<FormatField> field;  ///< Absent in the last piece.
};

/// Parses a format string. InvalidArgument, with the position, for a malformed one. Thread-safe.
CALLOUT_EXPORT Result<std::vector<FormatPiece>> ParseFormatString(std::string_view format);

/// Returns an error about the character at `position` of `format`.
Status FormatError(std::string_view format, size_t position, const std::string& what);

}  // namespace callout::internal
