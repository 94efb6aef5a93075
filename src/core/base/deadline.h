// SPDX-License-Identifier: Apache-2.0
//
// Seconds, as users write them, as moments of the steady clock, which counts nanoseconds in 64 bits: some 292 years.
#pragma once

#include <chrono>

namespace callout::internal {

/// The moment `seconds` from now. For ever (`time_point::max()`) if they are negative, no number, or more than 1e9:
/// some 30 years, beyond which clocks end. Thread-safe.
inline std::chrono::steady_clock::time_point DeadlineAfter(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0 && seconds <= kLongest)) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace callout::internal
