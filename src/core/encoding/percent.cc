// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/percent.h"

#include <charconv>

namespace callout::internal {

std::optional<char> HexByte(std::string_view text) {
  unsigned char byte = 0;
  if (text.size() < 2 || std::from_chars(text.data(), text.data() + 2, byte, 16).ptr != text.data() + 2) {
    return std::nullopt;
  }
  return static_cast<char>(byte);
}

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::optional<char> byte = HexByte(text.substr(i + 1));
    if (!byte) return std::nullopt;
    decoded += *byte;
    i += 2;
  }
  return decoded;
}

}  // namespace callout::internal
