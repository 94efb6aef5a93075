// SPDX-License-Identifier: Apache-2.0
//
// The one way in which a program, compiled or eager, calls a callback for a result.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "callout/export.h"
#include "core/callbacks/callback.h"
#include "core/profile/event.h"

namespace callout::internal {

/// Runs `callback.Call(call)` on this thread: counted, watched, refused in a forked child, and with whatever it throws
/// turned into a Status. The Status's text names the callback and the device. Thread-safe. GIL not needed.
CALLOUT_EXPORT Status Invoke(Callback& callback, const callout_call& call);

/// What a profile's session notes of `callback`; who begins the span adds what it knows.
CALLOUT_EXPORT ProfileEvent EventOf(ProfileKind kind, const Callback& callback, int32_t device_ordinal,
                                    uint32_t session);

/// Bytes of all buffers together.
inline uint64_t TotalBytes(std::span<const callout_buffer> buffers) {
  uint64_t bytes = 0;
  for (const callout_buffer& buffer : buffers) bytes += buffer.size_bytes;
  return bytes;
}

/// "callout: callback 'name' failed on device 0: why", the form of every callback's error.
CALLOUT_EXPORT std::string DescribeFailure(const Callback& callback, int32_t device_ordinal, const Status& status);

}  // namespace callout::internal
