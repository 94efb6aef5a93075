// SPDX-License-Identifier: Apache-2.0
//
// How long a delivery thread naps. The end of each nap takes a processor from the programs for some 10 us, so naps
// become long where programs send one record after the other. Where a program waits for what a tap does before it sends
// the next record, and no barrier ends the nap, each nap finds one record: these stay short. So do those that find
// many bytes, which would leave the caches meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace callout::internal {

/// Not thread-safe: the delivery thread's own.
class Naps {
 public:
  using Duration = std::chrono::microseconds;
  static constexpr Duration kShortest{100};
  static constexpr Duration kIdle{200};  ///< After one that found nothing.
  static constexpr Duration kLongest{800};
  static constexpr uint64_t kManyBytes = 2 << 20;
  static constexpr int kIdleBeforeSleep = 3;

  /// A record was delivered.
  void Count(uint64_t bytes) {
    ++records_;
    bytes_ += bytes;
  }

  /// How long to nap, where there is nothing to deliver; zero: sleep.
  Duration Next() {
    idle_ = records_ > 0 ? 0 : idle_ + 1;
    if (idle_ == kIdleBeforeSleep) {
      *this = {};
      return Duration::zero();
    }
    if (bytes_ > kManyBytes) {
      length_ = std::max(length_ / 2, kShortest);
    } else if (records_ <= 1) {
      length_ = records_ == 0 ? kIdle : kShortest;
    } else if (bytes_ <= kManyBytes / 2) {
      length_ = std::min(2 * length_, kLongest);
    }
    records_ = bytes_ = 0;
    return length_;
  }

 private:
  Duration length_ = kShortest;
  int idle_ = 0;  // naps that found nothing
  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace callout::internal
