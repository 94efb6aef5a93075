// SPDX-License-Identifier: Apache-2.0
//
// Waiting in tests by polling, for states that notify nobody, such as a producer that waits inside of a queue.
#pragma once

#include <chrono>
#include <thread>

namespace callout::internal {

/// A deadline for events that must happen. A test that hangs ends by its own time limit.
inline constexpr auto kForever = std::chrono::steady_clock::time_point::max();

/// Blocks until `condition()` is true, without sleeping.
template <typename Condition>
void SpinUntil(Condition&& condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace callout::internal
