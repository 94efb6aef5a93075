// SPDX-License-Identifier: Apache-2.0
//
// Format strings and format specifications as Python's `str.format` reads them: text, "{{", "}}" and {name!s:spec};
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
  char align = 0;          ///< '<', '>', '=', '^'; 0: what is usual for the value.
  char sign = 0;           ///< '+', '-', ' '; 0: not given, as '-'.
  bool no_negative_zero = false;
  bool alternate = false;
  int width = 0;
  char grouping = 0;   ///< ',' or '_'.
  int precision = -1;  ///< -1: not given.
  char type = 0;       ///< 0: not given.
};

enum class FormatKind { kBool, kInteger, kFloat, kComplex, kText };

/// InvalidArgument, in Python's words, for what is no specification of any type. Thread-safe, as all here.
CALLOUT_EXPORT Result<FormatSpec> ParseFormatSpec(std::string_view text);
/// InvalidArgument, in Python's words, if a value of `kind` cannot be formatted so.
CALLOUT_EXPORT Status CheckFormatSpec(const FormatSpec& spec, FormatKind kind);

/// What Python's `format(value, spec)` returns, appended. `spec` was checked for the value's kind.
CALLOUT_EXPORT void AppendFormatted(int64_t value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(uint64_t value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(double value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(std::complex<double> value, const FormatSpec& spec, std::string& out);
CALLOUT_EXPORT void AppendFormatted(std::string_view value, const FormatSpec& spec, std::string& out);

/// The shortest digits that read back as the same number, with an exponent outside of 1e-4 ... 1e16: what `str(value)`
/// returns of NumPy's scalars (of float32 from 1e6 on: before NumPy 2.3).
CALLOUT_EXPORT void AppendShortest(float value, std::string& out);
CALLOUT_EXPORT void AppendShortest(double value, std::string& out);
CALLOUT_EXPORT void AppendShortest(std::complex<float> value, std::string& out);
CALLOUT_EXPORT void AppendShortest(std::complex<double> value, std::string& out);

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
