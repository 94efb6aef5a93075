// SPDX-License-Identifier: Apache-2.0
// Two callbacks in one library, which a C++20 compiler builds with the headers of callout alone:
//
//   c++ -shared -fPIC -std=c++20 -O2 -I $(python -c 'import callout; print(callout.include_dir())') histogram.cc -o
//   libhistogram.so
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "callout/call.h"

namespace {

// Argument: f32[n]. Results: s32[bins] counts over the range, f32[2] the range.
void Histogram(const callout::Call& call) {
  const auto x = call.arg<float>(0);
  const auto counts = call.result<int32_t>(0);
  const auto range = call.result<float>(1);
  if (x.size() == 0) throw std::invalid_argument("a histogram of nothing");  // fails the program with this text
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  range[0] = *low;
  range[1] = *high;
  std::fill(counts.begin(), counts.end(), 0);
  const float scale = *high > *low ? static_cast<float>(counts.size()) / (*high - *low) : 0.0F;
  for (const float value : x) {
    const auto bin = static_cast<int64_t>((value - *low) * scale);
    ++counts[std::min(bin, counts.size() - 1)];
  }
}

std::atomic<int64_t> g_seen{0};

// A tap's target: takes s32[bins] and returns nothing. Callout's delivery thread calls it, one record after the other.
void Count(const callout::Call& call) {
  int64_t sum = 0;
  for (const int32_t count : call.arg<int32_t>(0)) sum += count;
  g_seen += sum;
}

}  // namespace

CALLOUT_DEFINE_CALLBACK(histogram, Histogram);
CALLOUT_DEFINE_CALLBACK(count, Count);

// Exports a callback for code that loads the library by other means.
extern "C" __attribute__((visibility("default"))) int64_t histogram_values_seen() { return g_seen; }
