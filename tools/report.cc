// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "callout/pjrt/trace.h"
#include "callout/text.h"
#include "core/base/cat.h"

namespace callout::tools {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

}  // namespace

std::string DurationText(double nanoseconds) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  const auto* unit = std::find_if(std::begin(kUnits), std::prev(std::end(kUnits)),
                                  [&](const auto& each) { return nanoseconds >= each.first; });
  char text[40];
  std::snprintf(text, sizeof(text), "%.3g %s", nanoseconds / unit->first, unit->second);
  return text;
}

void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::puts(line.c_str());
  }
}

void PrintResults(const NamedArrays& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Array& array = results[i].second;
    if (results.size() > 1) std::printf("result %zu, %s:\n", i, array.type.ToString().c_str());
    std::puts(ToText(array).c_str());
  }
}

void PrintStatistics() {
  std::vector<std::vector<std::string>> rows = {
      {"callback", "calls", "bytes", "time", "each", "errors", "dropped", "skipped"}};
  for (const pjrt::CallbackStatistics& one : pjrt::ReadStatistics()) {
    const double nanoseconds = one.host_seconds * kNanosecondsPerSecond;
    const double each = one.calls == 0 ? 0 : nanoseconds / static_cast<double>(one.calls);
    rows.push_back({one.name, std::to_string(one.calls), std::to_string(one.bytes), DurationText(nanoseconds),
                    DurationText(each), std::to_string(one.errors), std::to_string(one.drops),
                    std::to_string(one.skips)});
  }
  if (rows.size() > 1) PrintTable(rows);
}

static Status WriteFile(const std::string& path, const char* what, const std::string& text) {
  errno = 0;
  std::ofstream file(path);
  file << text;
  if (file.flush()) return OkStatus();
  return InternalError("callout: cannot write the " + std::string(what) + " '" + path + "': " + std::strerror(errno));
}

Status WriteMetrics(const std::string& path) { return WriteFile(path, "metrics", pjrt::PrometheusText()); }

Status WriteTrace(const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(const std::string trace, pjrt::StopTrace());
  return WriteFile(path, "trace", trace);
}

static void AppendJson(const std::vector<Comparison>* comparisons, bool as_expected, std::string& text) {
  if (comparisons == nullptr) {
    text += "null";
    return;
  }
  text += std::string("{\"equal\": ") + (as_expected ? "true" : "false") + ", \"results\": [";
  for (size_t i = 0; i < comparisons->size(); ++i) {
    if (i > 0) text += ", ";
    AppendJson((*comparisons)[i], text);
  }
  text += "]}";
}

void PrintJson(const JsonReport& report) {
  const NamedArrays& results = report.results;
  std::string text = "{\"results\": [";
  for (size_t i = 0; i < results.size(); ++i) {
    text += std::string(i == 0 ? "" : ", ") + "{\"type\": \"" + results[i].second.type.ToString() + "\", \"values\": ";
    AppendJson(results[i].second, text);
    text += '}';
  }
  text += "], \"cache\": " + (report.cache == nullptr ? std::string("null") : '"' + std::string(report.cache) + '"');
  text += ", \"comparison\": ";
  AppendJson(report.comparisons, report.as_expected, text);
  text += ", ";
  AppendJson(report.times, text);
  text += ", \"callbacks\": {";
  const char* separator = "";
  for (const pjrt::CallbackStatistics& one : pjrt::ReadStatistics()) {
    text += std::exchange(separator, ", ");
    callout::AppendJson(one.name, text);
    text += internal::Cat(": {\"calls\": ", one.calls, ", \"bytes\": ", one.bytes, ", \"seconds\": ");
    // Does not use snprintf, whose decimal point depends on the locale.
    char seconds[32];
    constexpr int kDigits = 9;
    text.append(seconds, std::to_chars(std::begin(seconds), std::end(seconds), one.host_seconds,
                                       std::chars_format::general, kDigits)
                             .ptr);
    text +=
        internal::Cat(", \"errors\": ", one.errors, ", \"dropped\": ", one.drops, ", \"skipped\": ", one.skips, "}");
  }
  std::puts((text + "}}").c_str());
}

}  // namespace callout::tools
