// SPDX-License-Identifier: Apache-2.0
#include "base/ticks.h"

#include <chrono>

namespace callout::internal {
namespace {

// Read while the library is loaded, so that the base line is as long as the process has run.
const uint64_t g_start_ticks = Ticks();
const int64_t g_start_ns = SteadyNanoseconds();

}  // namespace

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double TicksToNanoseconds(uint64_t ticks) {
  const uint64_t elapsed_ticks = Ticks() - g_start_ticks;
  const int64_t elapsed_ns = SteadyNanoseconds() - g_start_ns;
  if (elapsed_ticks == 0 || elapsed_ns <= 0) return 0.0;
  return static_cast<double>(ticks) * static_cast<double>(elapsed_ns) / static_cast<double>(elapsed_ticks);
}

double WallSecondsAt(uint64_t ticks) {
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return now - TicksToNanoseconds(Ticks() - ticks) * 1e-9;
}

}  // namespace callout::internal
