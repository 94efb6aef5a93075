// SPDX-License-Identifier: Apache-2.0
//
// Waiting in tests. Most states are told; some can only be asked for: a producer that waits inside a queue, for
// instance.
#pragma once

#include <chrono>
#include <thread>

namespace callout::internal {

/// A deadline for what must happen: a test that hangs is found by its own time limit.
inline constexpr auto kForever = std::chrono::steady_clock::time_point::max();

/// Blocks until `condition()`, without sleeping.
template <typename Condition>
void SpinUntil(Condition&& condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace callout::internal
