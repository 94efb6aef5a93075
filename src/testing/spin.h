// SPDX-License-Identifier: Apache-2.0
//
// For states that can only be asked for: a producer that waits inside a queue, for instance.
#pragma once

#include <thread>

namespace callout::internal {

/// Blocks until `condition()`, without sleeping.
template <typename Condition>
void SpinUntil(Condition&& condition) {
  while (!condition()) std::this_thread::yield();
}

}  // namespace callout::internal
