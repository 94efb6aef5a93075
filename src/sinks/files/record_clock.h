// SPDX-License-Identifier: Apache-2.0
//
// The time of day at which records were taken, for sinks that write it with each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace callout::internal {

/// Reads the clock once a second, and counts ticks from there: records of one thread have times in their order. Not
/// thread-safe: a sink's own.
class RecordClock {
 public:
  /// Seconds since 1970.
  double SecondsAt(uint64_t ticks) {
    if (anchor_ticks_ == 0 || (ticks > anchor_ticks_ && ticks - anchor_ticks_ > second_ticks_)) Read();
    double seconds = anchor_seconds_ + static_cast<double>(static_cast<int64_t>(ticks - anchor_ticks_)) * tick_seconds_;
    if (ticks >= last_ticks_) {  // a clock that was read again, or set, does not turn the order around
      seconds = std::max(seconds, last_seconds_);
      last_ticks_ = ticks;
      last_seconds_ = seconds;
    }
    return seconds;
  }
  /// Appends them with six digits behind the point.
  void Append(uint64_t ticks, std::string& out);

 private:
  void Read();

  uint64_t anchor_ticks_ = 0;
  uint64_t second_ticks_ = 0;  ///< Ticks of a second.
  double tick_seconds_ = 0;
  double anchor_seconds_ = 0;
  uint64_t last_ticks_ = 0;
  double last_seconds_ = 0;
};

}  // namespace callout::internal
