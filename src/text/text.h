// SPDX-License-Identifier: Apache-2.0
//
// Numbers and arrays as text, for sinks: shortest digits that read back as the same number (std::to_chars).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/dtype.h"

namespace callout::internal {

enum class TextStyle {
  kJson,   ///< [[1.5,2],[3,4]]; true/false; NaN and infinities as the strings "NaN", "Infinity", "-Infinity".
  kPrint,  ///< [[1.5 2] [3 4]]; True/False; nan, inf, -inf; long arrays cut to their first and last elements.
};

/// Borrowed: the buffer outlives it.
class ElementWriter {
 public:
  ElementWriter(const callout_buffer& buffer, TextStyle style);
  /// `i` counts row-major.
  void Append(int64_t i, std::string& out) const;

 private:
  DType dtype_;
  TextStyle style_;
  const char* data_;
  std::vector<uint8_t> unpacked_;
};

/// Appends the whole buffer: a bare number for a scalar, nested lists else. Complex numbers are [re,im] in JSON and
/// re+imj in print style.
void AppendArray(const callout_buffer& buffer, TextStyle style, std::string& out);

void AppendNumber(double value, std::string& out);

}  // namespace callout::internal
