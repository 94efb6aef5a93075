// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/tap_slot.h"

#include <algorithm>

#include "callout/dtype.h"
#include "core/delivery/bounded_queue.h"
#include "core/frame/buffer.h"
#include "cuda/driver/stream_work.h"

namespace callout::internal {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint32_t kManyBuffers = 4;  // A launch costs as much as two or three copies.
// Larger buffers are copied by the driver, whose copies use the whole device; the kernel uses few blocks for a piece.
constexpr uint64_t kGatheredUpTo = 1 << 20;

// Keeps the step's first element only.
callout_buffer FirstOf(const callout_buffer& step) {
  callout_buffer first = step;
  first.rank = 0;
  first.dims = nullptr;
  first.size_bytes = std::min(step.size_bytes, PackedBytes(static_cast<DType>(step.dtype), 1));
  return first;
}

template <typename Visit>
void ForEachBuffer(const DeviceSending& sending, Visit&& visit) {
  for (const callout_buffer& buffer : sending.buffers) visit(buffer);
  if (sending.step != nullptr) visit(FirstOf(*sending.step));
}

// Calls `copy(offset in the slot's data, address, bytes)` for each buffer that is not empty.
template <typename Copy>
Status ForEachCopy(const TapSlot& slot, const DeviceSending& sending, Copy&& copy) {
  const callout_buffer* in_slot = slot.buffers();
  Status status;
  ForEachBuffer(sending, [&](const callout_buffer& buffer) {
    const auto at = static_cast<uint64_t>(static_cast<const char*>(in_slot++->data) - slot.data);
    if (status.ok() && buffer.size_bytes > 0) status = copy(at, cuda::AddressOf(buffer.data), buffer.size_bytes);
  });
  return status;
}

// May run on a CUDA host-function thread: must not call CUDA.
void SetArrived(void* slot) {
  auto& arrived = *static_cast<TapSlot*>(slot);
  // Pairs with HasArrived.
  std::atomic_ref<uint32_t>(arrived.arrived).store(arrived.number, std::memory_order_release);
}

}  // namespace

std::optional<int64_t> TapSlot::step() { return has_step ? FirstInteger(buffers()[num_buffers - 1]) : std::nullopt; }

SlotShape ShapeOf(const DeviceSending& sending) {
  SlotShape shape;
  uint64_t header = sizeof(TapSlot);
  ForEachBuffer(sending, [&](const callout_buffer& buffer) {
    header += sizeof(callout_buffer) + buffer.rank * sizeof(int64_t);
    shape.data += AlignUp(buffer.size_bytes, kAlignment);
    if (buffer.size_bytes > 0) ++shape.pieces;
  });
  if (shape.pieces < kManyBuffers) shape.pieces = 0;
  shape.header = AlignUp(header + shape.pieces * sizeof(CopiedPiece), kAlignment);
  return shape;
}

void Describe(TapSlot& slot, const SlotShape& shape, TapSite& site, const DeviceSending& sending, bool is_admitted) {
  slot.has_step = sending.step != nullptr;
  slot.num_buffers = static_cast<uint32_t>(sending.buffers.size() + (slot.has_step ? 1 : 0));
  slot.is_admitted = is_admitted;
  slot.site = &site;
  slot.run_id = sending.run_id;
  callout_buffer* copy = slot.buffers();
  int64_t* dims = slot.dims();
  ForEachBuffer(sending, [&](const callout_buffer& buffer) {
    *copy = buffer;
    copy->dims = dims;
    ++copy;
    dims = std::copy_n(buffer.dims, buffer.rank, dims);
  });
  slot.data = reinterpret_cast<char*>(&slot) + shape.header;
  char* data = slot.data;
  for (uint32_t i = 0; i < slot.num_buffers; ++i) {
    slot.buffers()[i].data = data;
    data += AlignUp(slot.buffers()[i].size_bytes, kAlignment);
  }
}

Status QueueCopies(const cuda::Device& device, TapSlot& slot, const DeviceSending& sending) {
  return ForEachCopy(slot, sending, [&](uint64_t at, cuda::CUdeviceptr from, size_t bytes) {
    return CopyToHost(device, sending.stream, slot.data + at, from, bytes);
  });
}

Status QueueCopiesOnDevice(const cuda::Device& device, const TapSlot& slot, cuda::CUdeviceptr data,
                           const DeviceSending& sending) {
  return ForEachCopy(slot, sending, [&](uint64_t at, cuda::CUdeviceptr from, size_t bytes) {
    return CopyOnDevice(device, sending.stream, data + at, from, bytes, "");
  });
}

Status QueueGather(const cuda::Device& device, const LeafGather& gather, TapSlot& slot, const SlotShape& shape,
                   cuda::CUdeviceptr on_device, cuda::CUdeviceptr data, const DeviceSending& sending) {
  char* const pieces = slot.data - shape.pieces * sizeof(CopiedPiece);
  auto* const first = reinterpret_cast<CopiedPiece*>(pieces);
  uint32_t count = 0;
  uint64_t largest = 0;
  CALLOUT_RETURN_IF_ERROR(ForEachCopy(slot, sending, [&](uint64_t at, cuda::CUdeviceptr from, size_t bytes) {
    if (bytes > kGatheredUpTo) return CopyOnDevice(device, sending.stream, data + at, from, bytes, "");
    first[count++] = {.to = data + at, .from = from, .bytes = bytes};
    largest = std::max<uint64_t>(largest, bytes);
    return OkStatus();
  }));
  if (count == 0) return OkStatus();
  const auto at = static_cast<uint64_t>(pieces - reinterpret_cast<char*>(&slot));
  return gather.Queue(sending.stream, on_device + at, count, largest);
}

Status QueueArrival(const cuda::Device& device, TapSlot& slot, cuda::CUdeviceptr on_device, cuda::CUstream stream,
                    std::atomic<Publication>& publication) {
  // Relaxed: a thread that misses the change finds out by itself.
  if (publication.load(std::memory_order_relaxed) == Publication::kWriteValue) {
    CALLOUT_ASSIGN_OR_RETURN(const bool is_queued,
                             Publish(device, stream, on_device + offsetof(TapSlot, arrived), slot.number));
    if (is_queued) return OkStatus();
    publication.store(Publication::kHostFunction, std::memory_order_relaxed);
  }
  return CallOnHost(device, stream, &SetArrived, &slot);
}

}  // namespace callout::internal
