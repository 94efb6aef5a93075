// SPDX-License-Identifier: Apache-2.0
#include "times.h"

#include <algorithm>
#include <cstdio>

#include "callout/text.h"
#include "core/base/cat.h"
#include "report.h"

namespace callout::tools {
namespace {

constexpr int kPercentiles[] = {50, 90, 99};

std::vector<int64_t> Sorted(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

double Times::RunsPerSecond() const {
  return static_cast<double>(nanoseconds.size()) * 1e9 / static_cast<double>(std::max<int64_t>(wall_nanoseconds, 1));
}

int64_t Percentile(const std::vector<int64_t>& sorted, int percent) {
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

void PrintTimes(const Times& times) {
  if (times.nanoseconds.empty()) return;
  const auto text = [](int64_t nanoseconds) { return DurationText(static_cast<double>(nanoseconds)); };
  if (times.nanoseconds.size() == 1) {
    std::printf("ran once, %s\n", text(times.nanoseconds.front()).c_str());
    return;
  }
  const std::vector<int64_t> sorted = Sorted(times.nanoseconds);
  std::printf("ran %zu times: median (p50) %s, p90 %s, p99 %s, least %s, first %s; %.4g runs a second\n", sorted.size(),
              text(Percentile(sorted, 50)).c_str(), text(Percentile(sorted, 90)).c_str(),
              text(Percentile(sorted, 99)).c_str(), text(sorted.front()).c_str(),
              text(times.nanoseconds.front()).c_str(), times.RunsPerSecond());
}

void AppendJson(const Times& times, std::string& text) {
  text += internal::Cat("\"nanoseconds\": [", internal::Join(times.nanoseconds, ", "), "], \"percentiles\": {");
  const std::vector<int64_t> sorted = Sorted(times.nanoseconds);
  for (const int percent : kPercentiles) {
    text += internal::Cat(percent == kPercentiles[0] ? "\"p" : ", \"p", percent, "\": ", Percentile(sorted, percent));
  }
  text += "}, \"runs_per_second\": ";
  callout::AppendJson(times.RunsPerSecond(), text);
}

}  // namespace callout::tools
