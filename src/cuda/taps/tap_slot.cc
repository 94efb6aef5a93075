// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/tap_slot.h"

#include <algorithm>

#include "callout/dtype.h"
#include "cuda/driver/resources.h"
#include "delivery/record_header.h"
#include "frame/buffer.h"

namespace callout::internal {
namespace {

constexpr uint64_t kAlignment = 64;

// Of the step only the first element counts.
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

// May run on a CUDA host-function thread: must not call CUDA.
void SetArrived(void* slot) {
  auto& arrived = *static_cast<TapSlot*>(slot);
  std::atomic_ref<uint32_t>(arrived.arrived).store(arrived.number, std::memory_order_release);  // see HasArrived
}

}  // namespace

std::optional<int64_t> TapSlot::step() { return has_step ? FirstInteger(buffers()[num_buffers - 1]) : std::nullopt; }

uint64_t SlotBytes(const DeviceSending& sending) {
  uint64_t bytes = sizeof(TapSlot);
  uint64_t data = 0;
  ForEachBuffer(sending, [&](const callout_buffer& buffer) {
    bytes += sizeof(callout_buffer) + buffer.rank * sizeof(int64_t);
    data += AlignUp(buffer.size_bytes, kAlignment);
  });
  return AlignUp(bytes, kAlignment) + data;
}

void Describe(TapSlot& slot, TapSite& site, const DeviceSending& sending, bool is_admitted) {
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
  char* data = reinterpret_cast<char*>(&slot);
  data += AlignUp(static_cast<uint64_t>(reinterpret_cast<char*>(dims) - data), kAlignment);
  for (uint32_t i = 0; i < slot.num_buffers; ++i) {
    slot.buffers()[i].data = data;
    data += AlignUp(slot.buffers()[i].size_bytes, kAlignment);
  }
}

Status QueueCopies(const cuda::Device& device, TapSlot& slot, const DeviceSending& sending) {
  const callout_buffer* copy = slot.buffers();
  Status status;
  ForEachBuffer(sending, [&](const callout_buffer& buffer) {
    if (status.ok() && buffer.size_bytes > 0) {
      const auto from = cuda::AddressOf(buffer.data);
      status = device.Check(device.driver().MemcpyDtoHAsync(copy->data, from, buffer.size_bytes, sending.stream),
                            "cuMemcpyDtoHAsync");
    }
    ++copy;
  });
  return status;
}

Status QueueArrival(const cuda::Device& device, TapSlot& slot, cuda::CUdeviceptr on_device, cuda::CUstream stream,
                    std::atomic<Publication>& publication) {
  const cuda::Driver& driver = device.driver();
  // Relaxed: whoever misses the change finds out by itself.
  if (driver.StreamWriteValue32 != nullptr && publication.load(std::memory_order_relaxed) == Publication::kWriteValue) {
    const cuda::CUdeviceptr at = on_device + offsetof(TapSlot, arrived);
    // The default write comes behind a fence: who sees it sees the copies.
    const int result = driver.StreamWriteValue32(stream, at, slot.number, cuda::CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result != cuda::CUDA_ERROR_NOT_SUPPORTED) return device.Check(result, "cuStreamWriteValue32");
    publication.store(Publication::kHostFunction, std::memory_order_relaxed);
  }
  return device.Check(driver.LaunchHostFunc(stream, &SetArrived, &slot), "cuLaunchHostFunc");
}

}  // namespace callout::internal
