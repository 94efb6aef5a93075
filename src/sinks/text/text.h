// SPDX-License-Identifier: Apache-2.0
//
// Writes numbers and arrays as text, for sinks: the shortest digits that read back as the same number (std::to_chars).
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
  kCsv,    ///< Elements as in kPrint, but whole floats end in ".0": readers infer a column's type from its digits.
};

/// Borrowed: the buffer must outlive the writer.
class ElementWriter {
 public:
  /// InvalidArgument for tokens and unknown types.
  static Result<ElementWriter> Of(const callout_buffer& buffer, TextStyle style);
  /// Appends an element; `i` is its row-major index.
  void Append(int64_t i, std::string& out) const { Append(i, 1, ' ', out); }
  /// Appends `count` elements from `i` on.
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
  SmallFloatFormat format_;  // The format of small floats.
  const void* data_ = nullptr;
  std::vector<uint8_t> unpacked_;
};

/// Appends the whole buffer: a bare number for a scalar, nested lists otherwise. Complex numbers are [re,im] in JSON
/// and re+imj in print style. On an error, that of ElementWriter::Of, appends nothing.
Status AppendArray(const callout_buffer& buffer, TextStyle style, std::string& out);

/// Appends the fewest digits that read back as the same number.
void AppendNumber(double value, std::string& out);

}  // namespace callout::internal
