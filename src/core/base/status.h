// SPDX-License-Identifier: Apache-2.0
//
// Conversion of user code's exceptions to a Status.
#pragma once

#include <cstdint>
#include <utility>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// Returns the exception that is being handled: ResourceExhausted for std::bad_alloc, else Internal with the
/// exception's text. Must be called in a `catch (...)`. Thread-safe.
CALLOUT_EXPORT Status CaughtStatus();

/// Calls `body(args...)`, which returns a Status; an exception becomes a Status. Thread-safe.
template <typename Body, typename... Args>
Status Guarded(Body&& body, Args&&... args) {
  try {
    return std::forward<Body>(body)(std::forward<Args>(args)...);
  } catch (...) {
    return CaughtStatus();
  }
}

/// Returns "out of memory: cannot allocate 240000000 bytes for a tap's value". Thread-safe.
CALLOUT_EXPORT Status OutOfMemory(uint64_t bytes, const char* what);

}  // namespace callout::internal
