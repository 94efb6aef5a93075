// SPDX-License-Identifier: Apache-2.0
//
// Numbers and arrays as text, for sinks: shortest digits that read back as the same number (std::to_chars).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/frame/elements.h"

namespace callout::internal {

enum class TextStyle {
  kJson,   ///< [[1.5,2],[3,4]]; true/false; NaN and infinities as the strings "NaN", "Infinity", "-Infinity".
  kPrint,  ///< [[1.5 2] [3 4]]; True/False; nan, inf, -inf; long arrays cut to their first and last elements.
  kCsv,    ///< Elements as kPrint, but whole floats end in ".0": readers take a column's type from its digits.
};

/// Borrowed: the buffer outlives it.
class ElementWriter {
 public:
  /// InvalidArgument for tokens and types that are not known.
  static Result<ElementWriter> Of(const callout_buffer& buffer, TextStyle style);
  /// `i` counts row-major.
  void Append(int64_t i, std::string& out) const { Append(i, 1, ' ', out); }
  /// `count` of them from `i` on.
  void Append(int64_t i, int64_t count, char separator, std::string& out) const {
    append_(*this, i, count, separator, out);
  }

 private:
  using AppendElements = void (*)(const ElementWriter&, int64_t i, int64_t count, char separator, std::string&);

  ElementWriter() = default;
  template <typename Reader>
  void ReadWith(const Reader& reader, TextStyle style);

  AppendElements append_ = nullptr;
  TextStyle style_ = TextStyle::kPrint;
  SmallFloatFormat format_;  // of small floats
  const void* data_ = nullptr;
  std::vector<uint8_t> unpacked_;
};

/// Appends the whole buffer: a bare number for a scalar, nested lists else. Complex numbers are [re,im] in JSON and
/// re+imj in print style. InvalidArgument, and nothing, as ElementWriter::Of.
Status AppendArray(const callout_buffer& buffer, TextStyle style, std::string& out);

/// The fewest digits that read back as the same number.
void AppendNumber(double value, std::string& out);

}  // namespace callout::internal
