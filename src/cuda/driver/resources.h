// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and memory of a device. Each function makes the device's context current while it runs. The caller
// owns the result, and the device must outlive it. Thread-safe. GIL not needed.
#pragma once

#include "callout/export.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {

/// Creates a stream that neither waits for the default stream nor makes it wait.
CALLOUT_EXPORT Result<Stream> CreateStream(const Device& device);

/// Creates an event for ordering only, without times, unless `flags` is CU_EVENT_DEFAULT.
CALLOUT_EXPORT Result<Event> CreateEvent(const Device& device, unsigned int flags = CU_EVENT_DISABLE_TIMING);

CALLOUT_EXPORT Result<DeviceMemory> AllocateDevice(const Device& device, size_t bytes);

/// Allocates host memory that every device can access.
CALLOUT_EXPORT Result<PinnedMemory> AllocatePinned(const Device& device, size_t bytes);

/// Returns the device's address of pinned memory.
CALLOUT_EXPORT Result<CUdeviceptr> DeviceAddressOf(const Device& device, const PinnedMemory& memory);

/// Returns the driver's address of device memory or pinned memory.
inline CUdeviceptr AddressOf(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Queues a copy within a device's memory; does nothing if `to` equals `from`. `subject` is the callback's name in
/// errors.
CALLOUT_EXPORT Status CopyOnDevice(const Device& device, CUstream stream, CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, std::string_view subject);

/// Blocks until everything that is queued on `stream` has run. Also returns errors of work that was queued earlier.
/// `subject` is the callback's name in errors.
CALLOUT_EXPORT Status Synchronize(const Device& device, CUstream stream, std::string_view subject = {});

/// Returns whether the stream is being captured into a graph, including a capture that has failed already.
CALLOUT_EXPORT Result<bool> IsCapturing(const Device& device, CUstream stream);
/// Returns whether the stream is being captured. Requires that the context of device `ordinal` is current.
CALLOUT_EXPORT Result<bool> IsCapturing(const Driver& driver, CUstream stream, int ordinal);

}  // namespace callout::internal::cuda
