// SPDX-License-Identifier: Apache-2.0
//
// How often and how long callbacks run. The counters outlive the callbacks that they count, because an eager tap's
// callback lives for one call only. The table keeps the counters by label, and its size is bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "core/base/ticks.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// Times a call of a callback if the call belongs to the sample of timed calls. The caller counts the call at its end.
class Stopwatch {
 public:
  /// Begins the call. If `always`, the call is timed in any case.
  explicit Stopwatch(CallbackStats& stats, bool always) : stats_(stats), weight_(always ? 1 : WeightOf(stats)) {
    if (weight_ > 0) start_ = Ticks();
  }

  /// Returns true if the next call is to be timed.
  static bool IsDue(const CallbackStats& stats) { return WeightOf(stats) > 0; }

  void Stop() const {
    if (weight_ == 0) [[likely]]
      return;
    const uint64_t ticks = Ticks() - start_;
    stats_.host_ticks.fetch_add(ticks * weight_, std::memory_order_relaxed);
    stats_.takes_long.store(ticks > TicksOfMicroseconds(), std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kFirstCalls = 64;  // always timed
  static constexpr uint64_t kTimedEvery = 17;  // a prime: programs call their sites in turn, often 2, 4 or 8 of them

  // Returns the number of calls that the next call's time stands for; 0: the next call is not timed.
  static uint64_t WeightOf(const CallbackStats& stats) {
    const uint64_t calls = stats.calls();
    if (calls < kFirstCalls || stats.takes_long.load(std::memory_order_relaxed)) [[unlikely]]
      return 1;
    return calls % kTimedEvery == 0 ? kTimedEvery : 0;
  }

  CallbackStats& stats_;
  const uint64_t weight_;
  uint64_t start_ = 0;
};

struct CallbackStats;

/// Returns the counters of `label`, which are made if needed. Thread-safe.
CALLOUT_EXPORT std::shared_ptr<CallbackStats> StatsFor(const std::string& label);

/// Returns all counters, sorted by label. Thread-safe.
CALLOUT_EXPORT std::vector<std::pair<std::string, std::shared_ptr<CallbackStats>>> AllStats();

/// Removes labels without a live callback, and zeroes the counters of all others. Thread-safe.
CALLOUT_EXPORT void ResetStats();

}  // namespace callout::internal
