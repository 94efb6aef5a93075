// SPDX-License-Identifier: Apache-2.0
//
// `every` and `min_interval` of a tap: decided before anything is copied.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/ticks.h"

namespace callout::internal {

class Throttle {
 public:
  /// Lets the 1st, (every+1)th, ... record through (`every` >= 1), and of these none closer than `min_interval_ns`
  /// after the last one that went through (0: no limit).
  Throttle(int64_t every, int64_t min_interval_ns)
      : every_(every), min_interval_ns_(std::min(min_interval_ns, kLongestInterval)) {}

  /// Thread-safe.
  bool Admit() {
    if (every_ > 1 && seen_.fetch_add(1, std::memory_order_relaxed) % every_ != 0) return false;
    return min_interval_ns_ == 0 || AdmitTime(SteadyNanoseconds());
  }

 private:
  static constexpr int64_t kLongestInterval = INT64_MAX / 2;  // centuries; added to the clock, it does not overflow

  bool AdmitTime(int64_t now) {
    int64_t next = next_.load(std::memory_order_relaxed);
    while (now >= next) {
      // Several devices may ask at once: exactly one of them takes this interval.
      if (next_.compare_exchange_weak(next, now + min_interval_ns_, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  const int64_t every_;
  const int64_t min_interval_ns_;
  std::atomic<int64_t> seen_{0};
  std::atomic<int64_t> next_{INT64_MIN};
};

}  // namespace callout::internal
