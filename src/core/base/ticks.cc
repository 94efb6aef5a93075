// SPDX-License-Identifier: Apache-2.0
#include "core/base/ticks.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace callout::internal {
namespace {

constexpr int64_t kLongEnoughNs = 1'000'000'000;
constexpr int kReadings = 5;

// The values of both clocks at one moment, as nearly as they can be read together.
struct Moment {
  uint64_t ticks = 0;
  int64_t ns = 0;

  static Moment Now() {
    Moment best;
    uint64_t shortest = ~uint64_t{0};
    for (int i = 0; i < kReadings; ++i) {
      const uint64_t before = Ticks();
      const int64_t ns = SteadyNanoseconds();
      const uint64_t took = Ticks() - before;
      if (took >= shortest) continue;
      shortest = took;
      best = {before + took / 2, ns};
    }
    return best;
  }
};

// Read when the library is loaded, so that the measurement is as long as the process has run.
const Moment g_start = Moment::Now();
std::atomic<double> g_rate{0.0};
std::atomic<bool> g_is_measured{false};

double NanosecondsPerTick() {
  const bool is_measured = g_is_measured.load(std::memory_order_acquire);  // pairs with the store below
  double rate = g_rate.load(std::memory_order_relaxed);
  if (is_measured) [[likely]]
    return rate;
  const Moment now = Moment::Now();
  const int64_t elapsed_ns = now.ns - g_start.ns;
  if (elapsed_ns > 0 && now.ticks > g_start.ticks) {
    const double measured = static_cast<double>(elapsed_ns) / static_cast<double>(now.ticks - g_start.ticks);
    while (rate < measured && !g_rate.compare_exchange_weak(rate, measured, std::memory_order_relaxed)) {
    }
    rate = std::max(rate, measured);
  }
  if (elapsed_ns >= kLongEnoughNs) g_is_measured.store(true, std::memory_order_release);
  return rate;
}

}  // namespace

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double TicksToNanoseconds(uint64_t ticks) { return static_cast<double>(ticks) * NanosecondsPerTick(); }

double WallSecondsAt(uint64_t ticks) {
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return now - TicksToNanoseconds(Ticks() - ticks) * 1e-9;
}

}  // namespace callout::internal
