// SPDX-License-Identifier: Apache-2.0
//
// The layout of a record in pinned host memory on its way from a device:
//
//   TapSlot | callout_buffer x n | int64 dims | pad | CopiedPiece x n, of many | data of each buffer, 64-byte aligned
//
// The host writes everything before the data. The device writes the data, and then, later in its stream, `arrived`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "core/delivery/tap_site.h"
#include "cuda/driver/device.h"
#include "cuda/taps/leaf_gather.h"

namespace callout::internal {

/// The record that a program sends from a device. Borrowed: valid until the call returns.
struct DeviceSending {
  std::span<const callout_buffer> buffers;  ///< In device memory: the value, and its offsets if it has any.
  const callout_buffer* step = nullptr;     ///< In device memory, an array of integers; null: the site has no step.
  cuda::CUstream stream = nullptr;
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
};

/// The ways in which a device announces that the data has arrived.
enum class Publication {
  kWriteValue,    ///< The stream writes a value.
  kHostFunction,  ///< The stream calls a host function, which delays it a little; if streams cannot write.
};

/// The sizes of a slot's parts.
struct SlotShape {
  uint64_t header = 0;  ///< Bytes before the data.
  uint64_t data = 0;    ///< Bytes of all buffers, each padded to 64.
  uint32_t pieces = 0;  ///< Buffers with data, if one launch costs less than a copy for each; otherwise 0.

  uint64_t bytes() const { return header + data; }
};

struct alignas(64) TapSlot {
  uint32_t arrived;  ///< Equals `number` when all of the data has been written.
  uint32_t number;   ///< Never 0, and differs from the number of the previous record in this memory.
  uint32_t num_buffers;
  bool has_step;     ///< The last buffer is the step.
  bool is_admitted;  ///< False if the decision depends on the step.
  uint32_t skipped;  ///< See Sending.
  TapSite* site;
  int64_t run_id;
  char* data;  ///< The data of the first buffer.

  const callout_buffer* buffers() const { return reinterpret_cast<const callout_buffer*>(this + 1); }
  callout_buffer* buffers() { return reinterpret_cast<callout_buffer*>(this + 1); }
  int64_t* dims() { return reinterpret_cast<int64_t*>(buffers() + num_buffers); }

  /// The value and its offsets.
  std::span<const callout_buffer> value() { return {buffers(), num_buffers - (has_step ? 1 : 0)}; }
  std::optional<int64_t> step();

  /// Returns whether the data has arrived; the caller may then read it. Thread-safe.
  bool HasArrived() {
    // Acquire: pairs with the write that QueueArrival queues after the data.
    return std::atomic_ref<uint32_t>(arrived).load(std::memory_order_acquire) == number;
  }
};

// Functions that queue work require that the device's context is current.

/// Returns the shape of a record's slot.
SlotShape ShapeOf(const DeviceSending& sending);

/// Fills a slot of shape `shape`, except for its number and data.
void Describe(TapSlot& slot, const SlotShape& shape, TapSite& site, const DeviceSending& sending, bool is_admitted);

/// Queues a copy of each buffer into the slot.
Status QueueCopies(const cuda::Device& device, TapSlot& slot, const DeviceSending& sending);

/// Queues copies of the buffers to `data`, device memory with the layout of the slot's data.
Status QueueCopiesOnDevice(const cuda::Device& device, const TapSlot& slot, cuda::CUdeviceptr data,
                           const DeviceSending& sending);

/// Queues one launch that copies the small buffers, and a copy for each buffer that is faster to copy alone. The target
/// `data` has the layout of the slot's data, or is the device's address of that data. Requires a shape with pieces;
/// `on_device` is the device's address of the slot.
Status QueueGather(const cuda::Device& device, const LeafGather& gather, TapSlot& slot, const SlotShape& shape,
                   cuda::CUdeviceptr on_device, cuda::CUdeviceptr data, const DeviceSending& sending);

/// Queues a write of `slot.number` to `slot.arrived`; `on_device` is the device's address of the slot. If the device's
/// streams cannot write, sets `publication` to kHostFunction.
Status QueueArrival(const cuda::Device& device, TapSlot& slot, cuda::CUdeviceptr on_device, cuda::CUstream stream,
                    std::atomic<Publication>& publication);

}  // namespace callout::internal
