// SPDX-License-Identifier: Apache-2.0
//
// The one way in which a program, compiled or eager, calls a callback for a result.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "callout/export.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// Runs `callback.Call(call)` on this thread. Counts and watches the call, refuses it in a forked child, and turns an
/// exception into a Status. The Status's text names the callback and the device. Thread-safe. GIL not needed.
CALLOUT_EXPORT Status Invoke(Callback& callback, const callout_call& call);

/// Returns the bytes of all buffers together.
inline uint64_t TotalBytes(std::span<const callout_buffer> buffers) {
  uint64_t bytes = 0;
  for (const callout_buffer& buffer : buffers) bytes += buffer.size_bytes;
  return bytes;
}

/// Returns "callout: callback 'name' failed on device 0: why", the form of every callback's error. Thread-safe.
CALLOUT_EXPORT std::string DescribeFailure(const Callback& callback, int32_t device_ordinal, const Status& status);

}  // namespace callout::internal
