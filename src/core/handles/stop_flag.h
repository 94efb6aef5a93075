// SPDX-License-Identifier: Apache-2.0
//
// A flag that asks a program to stop: set by any thread, by a signal, or by a time limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/handles/host_object.h"

namespace callout::internal {

class CALLOUT_EXPORT StopFlag final : public HostObject {
 public:
  /// Makes a flag that is set `seconds` after StartTimer; never for a negative number or NaN.
  explicit StopFlag(double seconds = -1) : seconds_(seconds) { StartTimer(); }

  HandleKind kind() const override { return HandleKind::kStopFlag; }
  /// Returns the flag as one bool.
  Answer Read() const override;
  Status ReadInto(const Wanted& wanted) const override;

  bool IsSet() const;
  void Set() { is_set_.store(true, std::memory_order_release); }  // pairs with IsSet
  /// Clears the flag, and restarts the time limit.
  void Clear();
  /// Restarts the time limit.
  void StartTimer();

  /// Sets the flag, and returns whether it was not set before. May be called in a signal handler.
  bool SetIfUnset() noexcept { return !is_set_.exchange(true, std::memory_order_acq_rel); }

 private:
  const Answer& Now() const;

  static constexpr int64_t kNever = INT64_MAX;

  const double seconds_;
  std::atomic<bool> is_set_{false};
  std::atomic<int64_t> deadline_ns_{kNever};    // of the steady clock
  mutable std::atomic<uint64_t> looked_at_{0};  // Ticks() of the last look at the clock, or 0; an update may be lost
};

}  // namespace callout::internal
