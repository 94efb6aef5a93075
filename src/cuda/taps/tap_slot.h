// SPDX-License-Identifier: Apache-2.0
//
// A record on its way from a device, in pinned host memory:
//
//   TapSlot | callout_buffer x n | int64 dims | pad | data of each buffer, 64-byte aligned
//
// The host writes everything up to the data, the device the data and then, behind it in its stream, `arrived`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "cuda/driver/device.h"
#include "delivery/tap_site.h"

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

struct alignas(64) TapSlot {
  uint32_t arrived;  ///< `number`, when all of the data has been written.
  uint32_t number;   ///< Not 0, and another than that of the record that was here before.
  uint32_t num_buffers;
  bool has_step;     ///< The last buffer is the step.
  bool is_admitted;  ///< False if what decides that is in the step.
  uint32_t unsent;   ///< As of Sending.
  TapSite* site;
  int64_t run_id;

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

/// Bytes of the slot for a record.
uint64_t SlotBytes(const DeviceSending& sending);

/// Fills a slot of SlotBytes() bytes, but for its number and data.
void Describe(TapSlot& slot, TapSite& site, const DeviceSending& sending, bool is_admitted);

/// Queues the copies of the data. The device's context is current.
Status QueueCopies(const cuda::Device& device, TapSlot& slot, const DeviceSending& sending);

/// Queues that `slot.arrived` becomes `slot.number`; `on_device` is where the device sees the slot. Where the device
/// has no writes of streams, `publication` becomes kHostFunction. The device's context is current.
Status QueueArrival(const cuda::Device& device, TapSlot& slot, cuda::CUdeviceptr on_device, cuda::CUstream stream,
                    std::atomic<Publication>& publication);

}  // namespace callout::internal
