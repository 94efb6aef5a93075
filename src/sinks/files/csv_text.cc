// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/csv_text.h"

#include <algorithm>

namespace callout::internal {

void AppendCsvCell(std::string_view text, std::string& out) {
  const auto is_special = [](char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; };
  if (std::none_of(text.begin(), text.end(), is_special)) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"') out += '"';
      out += c;
    }
  }
  out += '"';
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    AppendCsvCell(cell, line);
    line += ',';
  }
  line.back() = '\n';
  return line;
}

std::optional<std::vector<std::string>> ParseCsvLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool begins = i == 0 || line[i - 1] == ',';
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"' && quoted) {
      quoted = false;
      if (i + 1 < line.size() && line[i + 1] != ',') return std::nullopt;
    } else if (c == '"' && begins) {
      quoted = true;
    } else if (c == '"') {
      return std::nullopt;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return cells;
}

}  // namespace callout::internal
