// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 (RFC 3629), for text that may come from anywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// Returns the bytes of the first code point of `text`, which is not empty; 0 if the bytes are invalid. Overlong forms,
/// surrogates and values above U+10FFFF are invalid. Thread-safe.
CALLOUT_EXPORT size_t FirstCodePointBytes(std::string_view text);

/// Returns `text` with U+FFFD for each byte that is not part of valid UTF-8. Thread-safe.
CALLOUT_EXPORT std::string ValidUtf8(std::string_view text);

inline bool ContinuesCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

inline size_t CodePoints(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), &ContinuesCodePoint));
}

/// Returns the bytes of the first `count` code points, or of all if there are fewer.
inline size_t BytesOf(std::string_view text, size_t count) {
  size_t end = 0;
  while (end < text.size()) {
    if (!ContinuesCodePoint(text[end]) && count-- == 0) break;
    ++end;
  }
  return end;
}

inline void AppendCodePoint(uint32_t point, std::string& out) {
  const auto byte = [&out](uint32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (point < 0x80) return byte(point);
  if (point < 0x800) {
    byte(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    byte(0xE0 | point >> 12);
    byte(0x80 | (point >> 6 & 0x3F));
  } else {
    byte(0xF0 | point >> 18);
    byte(0x80 | (point >> 12 & 0x3F));
    byte(0x80 | (point >> 6 & 0x3F));
  }
  byte(0x80 | (point & 0x3F));
}

}  // namespace callout::internal
