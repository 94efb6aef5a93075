// SPDX-License-Identifier: Apache-2.0
//
// The protocols by which GPU libraries read a Buffer in a CUDA device's memory.
#pragma once

#include "python_api.h"

#include <cstdint>

#include "callout/abi.h"
#include "callout/status.h"
#include "cuda/driver/device.h"

namespace callout::python {

/// The platform and the device of a call's buffers, and the stream on which the program computes.
struct MemorySpace {
  uint32_t platform = CALLOUT_PLATFORM_HOST;  ///< A callout_platform.
  int32_t ordinal = -1;
  void* stream = nullptr;

  static MemorySpace Of(const callout_call& call) { return {call.platform, call.device_ordinal, call.stream}; }
  bool on_host() const { return platform == CALLOUT_PLATFORM_HOST; }
};

/// Returns the space's device, which stays retained for good. Thread-safe.
Result<const internal::cuda::Device*> RetainedDevice(const MemorySpace& space);

/// Returns version 3 of the CUDA array interface. Null with a Python error: AttributeError for a dtype that the
/// interface does not have, RuntimeError for errors of the driver. Requires GIL.
PyObject* CudaArrayInterface(const callout_buffer& buffer, bool writeable, const MemorySpace& space);

/// Makes the consumer's later work on its stream run after the work that XLA queued on its own. `consumer`: None or an
/// int, as in Python's DLPack protocol for CUDA. Sets `other` to the number of the consumer's stream, or to 0 if the
/// stream is XLA's own or not known. False with a BufferError. Requires GIL.
bool OrderBehindXla(PyObject* consumer, const MemorySpace& space, uintptr_t* other);

/// The opposite of OrderBehindXla: makes all later work on XLA's stream run after the work already queued on the stream
/// numbered `producer`. False with a RuntimeError. Requires GIL.
bool OrderXlaBehind(uintptr_t producer, const MemorySpace& space);

/// True if `strides`, a tuple in bytes from a CUDA array interface, are those of a row-major array like the buffer.
/// Requires GIL.
bool StridesAreDense(PyObject* strides, const callout_buffer& like);

/// True if work that a call queues on its stream is recorded (captured), by Callout or by XLA. Requires the space's
/// context to be current.
Result<bool> IsRecorded(const MemorySpace& space);

/// The number of the legacy default stream, on which arrays work that name no stream.
inline constexpr uintptr_t kLegacyStream = 1;

/// Returns the stream's number in both protocols: 1 for the legacy default stream, else its address.
uintptr_t StreamNumber(void* stream);

/// Sets `error` for a reader of host memory, because the buffer is a device's, and returns null. `reader`: who wanted
/// to read. Requires GIL.
PyObject* RefuseHost(PyObject* error, const char* reader, const MemorySpace& space);

}  // namespace callout::python
