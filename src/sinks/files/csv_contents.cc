// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/csv_contents.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sinks/files/csv_columns.h"
#include "sinks/files/csv_text.h"

namespace callout::internal {
namespace {

// Calls `visit` for each line of the first `size` bytes, without its line feed, until it returns false.
template <typename Visit>
void ForEachLine(int fd, uint64_t size, const Visit& visit) {
  std::string lines;
  std::array<char, 64 << 10> chunk;
  for (uint64_t at = 0; at < size;) {
    const ssize_t n = pread(fd, chunk.data(), std::min<uint64_t>(chunk.size(), size - at), static_cast<off_t>(at));
    if (n <= 0) return;
    at += static_cast<uint64_t>(n);
    lines.append(chunk.data(), static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (!visit(std::string_view(lines).substr(begin, end - begin))) return;
    }
    lines.erase(0, begin);
  }
}

Status ReadHeader(int fd, uint64_t size, const std::vector<std::string>& wanted, std::vector<std::string>& columns) {
  std::optional<std::vector<std::string>> header;
  std::string line;
  ForEachLine(fd, size, [&](std::string_view first) {
    line = first;
    header = ParseCsvLine(first);
    return false;
  });
  if (!header) return InvalidArgument("its first line is no header: " + line);
  CALLOUT_RETURN_IF_ERROR(CheckCsvColumns(*header));
  if (!wanted.empty() && *header != wanted) {
    std::string expected = CsvLine(wanted);
    expected.pop_back();
    return InvalidArgument("its columns are " + line + ", expected " + expected);
  }
  columns = *std::move(header);
  return OkStatus();
}

// So that records without a step of their own go on behind the last one.
void ReadSteps(int fd, uint64_t size, const std::vector<std::string>& columns, StepCounter& steps) {
  const auto name = static_cast<size_t>(std::find(columns.begin(), columns.end(), "name") - columns.begin());
  const auto step = static_cast<size_t>(std::find(columns.begin(), columns.end(), "step") - columns.begin());
  if (name == columns.size() || step == columns.size()) return;
  std::map<std::string, int64_t> last;
  bool is_header = true;
  ForEachLine(fd, size, [&](std::string_view line) {
    const bool skip = std::exchange(is_header, false);
    const auto cells = skip ? std::nullopt : ParseCsvLine(line);
    if (!cells || cells->size() <= std::max(name, step)) return true;
    const std::string& text = (*cells)[step];
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{}) last[(*cells)[name]] = value;
    return true;
  });
  for (const auto& [label, value] : last) steps.Resume(label, value);
}

}  // namespace

Status ReadCsvContents(int fd, uint64_t size, const std::vector<std::string>& wanted, CsvContents& contents) {
  CALLOUT_RETURN_IF_ERROR(ReadHeader(fd, size, wanted, contents.columns));
  ReadSteps(fd, size, contents.columns, contents.steps);
  return OkStatus();
}

}  // namespace callout::internal
