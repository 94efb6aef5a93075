// SPDX-License-Identifier: Apache-2.0
//
// What a Buffer in a CUDA device's memory offers to libraries for GPUs.
#pragma once

#include "python_api.h"

#include <cstdint>

#include "callout/abi.h"
#include "callout/status.h"
#include "cuda/driver/device.h"

namespace callout::python {

/// Where a call's buffers are, and the stream that the program computes on.
struct MemorySpace {
  uint32_t platform = CALLOUT_PLATFORM_HOST;  ///< callout_platform
  int32_t ordinal = -1;
  void* stream = nullptr;

  static MemorySpace Of(const callout_call& call) { return {call.platform, call.device_ordinal, call.stream}; }
  bool on_host() const { return platform == CALLOUT_PLATFORM_HOST; }
};

/// The space's device, retained once and for all. Thread-safe.
Result<const internal::cuda::Device*> RetainedDevice(const MemorySpace& space);

/// Version 3 of the CUDA array interface. Null with a Python error: AttributeError for a dtype that it does not have,
/// RuntimeError for the driver's. Requires GIL.
PyObject* CudaArrayInterface(const callout_buffer& buffer, bool writeable, const MemorySpace& space);

/// Makes what a consumer queues on its stream run after what XLA queued on its own. `consumer`: None or an int, as
/// Python's DLPack protocol has it for CUDA. `other` is set to the number of its stream, or to 0 if that is XLA's own,
/// or not told. False with a BufferError. Requires GIL.
bool OrderBehindXla(PyObject* consumer, const MemorySpace& space, uintptr_t* other);

/// The other way round: what XLA's stream gets from now on runs after what the stream with this number has. False with
/// a RuntimeError. Requires GIL.
bool OrderXlaBehind(uintptr_t producer, const MemorySpace& space);

/// True if a tuple of strides in bytes, of the CUDA array interface, is that of a row-major array like the buffer.
/// Requires GIL.
bool StridesAreDense(PyObject* strides, const callout_buffer& like);

/// Whether what a call queues on its stream is recorded, by Callout or by XLA. The space's context is current.
Result<bool> IsRecorded(const MemorySpace& space);

/// The number of the legacy default stream, which arrays stand for that name none.
inline constexpr uintptr_t kLegacyStream = 1;

/// The stream as both protocols number it: 1 for the legacy default stream, or its address.
uintptr_t StreamNumber(void* stream);

/// Sets `error`, for everything that reads memory of the host; null. `reader`: who wants to. Requires GIL.
PyObject* RefuseHost(PyObject* error, const char* reader, const MemorySpace& space);

}  // namespace callout::python
