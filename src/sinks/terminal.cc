// SPDX-License-Identifier: Apache-2.0
#include "sinks/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "core/encoding/utf8.h"
#include "sinks/text/text_style.h"

namespace callout::internal {
namespace {

constexpr char kEscape = '\x1b';

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// Bytes of the escape sequence ("\x1b[36m") at the beginning of `text`.
size_t EscapeLength(std::string_view text) {
  const size_t end = text.find('m');
  return end == std::string_view::npos ? text.size() : end + 1;
}

}  // namespace

bool IsCapableTerminal(int fd) {
  const std::string_view term = Environment("TERM");
  return isatty(fd) == 1 && !term.empty() && term != "dumb";
}

bool WantsColours(int fd) { return IsCapableTerminal(fd) && Environment("NO_COLOR").empty(); }

size_t TerminalColumns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string FitOnLine(std::string_view text, size_t columns) {
  std::string out;
  size_t column = 0;
  bool is_coloured = false;
  while (!text.empty()) {
    if (text[0] == kEscape) {
      const size_t length = EscapeLength(text);
      out += text.substr(0, length);
      is_coloured = text.substr(0, length) != kTerminalColours.end;
      text.remove_prefix(length);
      continue;
    }
    if (columns > 0 && column == columns) break;
    const size_t length = BytesOf(text, 1);
    const bool is_control = static_cast<unsigned char>(text[0]) < 0x20;
    out += is_control ? " " : text.substr(0, length);
    ++column;
    text.remove_prefix(length);
  }
  if (is_coloured) out += kTerminalColours.end;
  return out;
}

}  // namespace callout::internal
