// SPDX-License-Identifier: Apache-2.0
#include "base/json_string.h"

#include <algorithm>
#include <cstdio>

#include "base/utf8.h"

namespace callout::internal {
void AppendJsonString(std::string_view text, std::string& out) {
  const auto is_plain = [](char c) { return c >= 0x20 && c != 0x7f && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) {  // names mostly are
    out.append(1, '"').append(text).append(1, '"');
    return;
  }
  out += '"';
  while (!text.empty()) {
    const size_t length = FirstCodePointBytes(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out.append(text, 0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

}  // namespace callout::internal
