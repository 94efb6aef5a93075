// SPDX-License-Identifier: Apache-2.0
//
// Time stamps that are cheap enough for the hot path: the processor's counter (about 7 ns against 25 ns for
// clock_gettime), which is converted to nanoseconds only when a statistic is read. The counter is invariant on every
// x86-64 machine that runs XLA, and by definition on aarch64, where it counts more slowly: 25 MHz to 1 GHz.
//
// DeadlineAfter converts seconds, as users write them, to deadlines of the steady clock, whose nanoseconds in 64 bits
// last 292 years.
#pragma once

#include <chrono>

namespace callout::internal {

/// Returns the moment `seconds` from now; never (`time_point::max()`) for a negative number, NaN, or more than 1e9,
/// which is some 30 years. Thread-safe.
inline std::chrono::steady_clock::time_point DeadlineAfter(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0 && seconds <= kLongest)) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace callout::internal

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <cstdint>

#include "callout/export.h"

namespace callout::internal {

inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
#error "callout: which counter does this processor have?"
#endif
}

/// Returns the number of ticks of one to two microseconds.
inline uint64_t TicksOfMicroseconds() {
#if defined(__x86_64__)
  return 4096;
#else
  uint64_t a_second = 0;
  asm("mrs %0, cntfrq_el0" : "=r"(a_second));
  return (a_second >> 19) + 1;
#endif
}

/// Converts ticks to nanoseconds. The rate is measured against the steady clock, over the time since the library was
/// loaded, until that is a second. The rate never falls from one call to the next, so a sum that only grows never falls
/// either. Thread-safe.
CALLOUT_EXPORT double TicksToNanoseconds(uint64_t ticks);

/// Returns the nanoseconds of the steady clock. Thread-safe.
CALLOUT_EXPORT int64_t SteadyNanoseconds();

/// Returns the seconds since the Unix epoch at the moment of `ticks`. Thread-safe.
CALLOUT_EXPORT double WallSecondsAt(uint64_t ticks);

}  // namespace callout::internal
