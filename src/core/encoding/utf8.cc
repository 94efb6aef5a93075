// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/utf8.h"

#include <cstddef>
#include <cstdint>

namespace callout::internal {
size_t FirstCodePointBytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  uint8_t low = 0x80, high = 0xBF;
  size_t size = 0;
  if (first >= 0xC2 && first <= 0xDF) size = 2;
  if (first >= 0xE0 && first <= 0xEF) size = 3;
  if (first >= 0xF0 && first <= 0xF4) size = 4;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (size == 0 || at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < size; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) return 0;
  }
  return size;
}

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = FirstCodePointBytes(text);
    if (bytes == 0) {
      valid += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      valid += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
  }
  return valid;
}

}  // namespace callout::internal
