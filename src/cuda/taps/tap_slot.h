// SPDX-License-Identifier: Apache-2.0
//
// A record on its way from a device, in pinned host memory:
//
//   TapSlot | callout_buffer x n | int64 dims | pad | CopiedPiece x n, of many | data of each buffer, 64-byte aligned
//
// The host writes everything up to the data, the device the data and then, behind it in its stream, `arrived`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "core/delivery/tap_site.h"
#include "cuda/driver/device.h"
#include "cuda/taps/leaf_gather.h"

namespace callout::internal {

/// What a program sends from a device. Borrowed: valid until the call returns.
struct DeviceSending {
  std::span<const callout_buffer> buffers;  ///< In the device's memory: the value, and its offsets if it has some.
  const callout_buffer* step = nullptr;     ///< In the device's memory, an array of integers; null: the site has none.
  cuda::CUstream stream = nullptr;
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
};

/// How the device says that the data is there.
enum class Publication {
  kWriteValue,    ///< A write of the stream.
  kHostFunction,  ///< A function of ours, which holds the stream up a little. For devices that cannot do the former.
};

/// The bytes of a slot.
struct SlotShape {
  uint64_t header = 0;  ///< Before the data.
  uint64_t data = 0;    ///< Of all buffers, each padded to 64.
  uint32_t pieces = 0;  ///< Buffers that have data, if they are enough for one launch to be less than a copy for each.

  uint64_t bytes() const { return header + data; }
};

struct alignas(64) TapSlot {
  uint32_t arrived;  ///< `number`, when all of the data has been written.
  uint32_t number;   ///< Not 0, and another than that of the record that was here before.
  uint32_t num_buffers;
  bool has_step;     ///< The last buffer is the step.
  bool is_admitted;  ///< False if what decides that is in the step.
  uint32_t unsent;   ///< As of Sending.
  TapSite* site;
  int64_t run_id;
  char* data;  ///< Of the first buffer.

  const callout_buffer* buffers() const { return reinterpret_cast<const callout_buffer*>(this + 1); }
  callout_buffer* buffers() { return reinterpret_cast<callout_buffer*>(this + 1); }
  int64_t* dims() { return reinterpret_cast<int64_t*>(buffers() + num_buffers); }

  /// The value and its offsets.
  std::span<const callout_buffer> value() { return {buffers(), num_buffers - (has_step ? 1 : 0)}; }
  std::optional<int64_t> step();

  /// True if the data is there, for whoever reads it then. Thread-safe.
  bool HasArrived() {
    // Pairs with what QueueArrival queues behind the data.
    return std::atomic_ref<uint32_t>(arrived).load(std::memory_order_acquire) == number;
  }
};

// Where something is queued, the device's context is current.

/// What the slot for a record is.
SlotShape ShapeOf(const DeviceSending& sending);

/// Fills a slot of that shape, but for its number and data.
void Describe(TapSlot& slot, const SlotShape& shape, TapSite& site, const DeviceSending& sending, bool is_admitted);

/// Queues a copy of each buffer into the slot.
Status QueueCopies(const cuda::Device& device, TapSlot& slot, const DeviceSending& sending);

/// Queues copies of the buffers to `data`, memory of the device that is laid out as the slot's data.
Status QueueCopiesOnDevice(const cuda::Device& device, const TapSlot& slot, cuda::CUdeviceptr data,
                           const DeviceSending& sending);

/// Queues one launch that copies the buffers to `data`, which is laid out as the slot's data, or is where the device
/// sees that; and a copy for each that is so large that a copy is faster. For a shape with pieces; `on_device` is where
/// the device sees the slot.
Status QueueGather(const cuda::Device& device, const LeafGather& gather, TapSlot& slot, const SlotShape& shape,
                   cuda::CUdeviceptr on_device, cuda::CUdeviceptr data, const DeviceSending& sending);

/// Queues that `slot.arrived` becomes `slot.number`; `on_device` is where the device sees the slot. Where the device
/// has no writes of streams, `publication` becomes kHostFunction.
Status QueueArrival(const cuda::Device& device, TapSlot& slot, cuda::CUdeviceptr on_device, cuda::CUstream stream,
                    std::atomic<Publication>& publication);

}  // namespace callout::internal
