// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and memory of a device. Each function makes the device's context current while it runs.
// Thread-safe. GIL not needed. What is returned is the caller's, and the device outlives it.
#pragma once

#include "callout/export.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {

/// One that neither waits for the default stream nor is waited for by it.
CALLOUT_EXPORT Result<Stream> CreateStream(const Device& device);

/// One for order only, without times, unless `flags` is CU_EVENT_DEFAULT.
CALLOUT_EXPORT Result<Event> CreateEvent(const Device& device, unsigned int flags = CU_EVENT_DISABLE_TIMING);

CALLOUT_EXPORT Result<DeviceMemory> AllocateDevice(const Device& device, size_t bytes);

/// Host memory at an address that every device can use too.
CALLOUT_EXPORT Result<PinnedMemory> AllocatePinned(const Device& device, size_t bytes);

/// Where the device sees such memory.
CALLOUT_EXPORT Result<CUdeviceptr> DeviceAddressOf(const Device& device, const PinnedMemory& memory);

/// Where memory of a device or pinned memory lies, in the driver's terms.
inline CUdeviceptr AddressOf(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Queues a copy from one place of a device's memory to another: none if they are the same place. `subject`: for whom.
CALLOUT_EXPORT Status CopyOnDevice(const Device& device, CUstream stream, CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, std::string_view subject);

/// Blocks until everything queued on `stream` has run. An error of earlier work arrives here. `subject`: for whom.
CALLOUT_EXPORT Status Synchronize(const Device& device, CUstream stream, std::string_view subject = {});

/// True if calls on `stream` are being recorded into a graph, also where that has failed already.
CALLOUT_EXPORT Result<bool> IsCapturing(const Device& device, CUstream stream);
/// The same where the context of device `ordinal` is current.
CALLOUT_EXPORT Result<bool> IsCapturing(const Driver& driver, CUstream stream, int ordinal);

}  // namespace callout::internal::cuda
