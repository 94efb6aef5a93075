// SPDX-License-Identifier: Apache-2.0
//
// Performs copies, sets, host functions and operations on values, in the thread of a stream or of a graph's launch. The
// mutex is not held: callers that free memory wait for the streams first.
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

#include "driver/graph_run.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

struct Layout {
  size_t pitch;
  size_t slice;
  size_t first;
};

Layout LayoutOf(size_t x, size_t y, size_t z, size_t pitch, size_t height) {
  const size_t slice = pitch * height;
  return {pitch, slice, x + y * pitch + z * slice};
}

size_t Span(const CUDA_MEMCPY3D& copy, const Layout& layout) {
  return (copy.Depth - 1) * layout.slice + (copy.Height - 1) * layout.pitch + copy.WidthInBytes;
}

// Finds the accessible address. A host address is used as it is; all others are looked up, and a unified address may be
// either.
char* Locate(CUmemorytype type, const void* host, CUdeviceptr device, size_t first, size_t bytes) {
  if (type == CU_MEMORYTYPE_HOST) return static_cast<char*>(const_cast<void*>(host)) + first;
  State& state = TheState();
  char* const found = FindMemory(state, device + first, bytes);
  if (found != nullptr || type == CU_MEMORYTYPE_DEVICE) return found;
  const std::lock_guard lock(state.mutex);
  return IsPageable(state, device) ? reinterpret_cast<char*>(device + first) : nullptr;
}

char* LocateValue(CUdeviceptr address, size_t bytes) { return FindMemory(TheState(), address, bytes); }

template <typename T>
bool Holds(T value, T wanted, unsigned int flags) {
  switch (flags & 3U) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(value - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (value & wanted) != 0;
    default:
      return static_cast<T>(~(value | wanted)) != 0;
  }
}

template <typename T>
CUresult WaitForValue(CUdeviceptr address, T wanted, unsigned int flags) {
  // A loop, because another device or the host may write the memory at any time.
  for (;;) {
    char* const memory = LocateValue(address, sizeof(T));
    if (memory == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const T value = std::atomic_ref<T>(*reinterpret_cast<T*>(memory)).load();
    if (Holds(value, wanted, flags)) return CUDA_SUCCESS;
    std::this_thread::yield();
  }
}

template <typename T>
CUresult WriteValue(CUdeviceptr address, T value) {
  char* const memory = LocateValue(address, sizeof(T));
  if (memory == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  // The default order is seq_cst: a thread that acquires the value sees all work queued before it.
  std::atomic_ref<T>(*reinterpret_cast<T*>(memory)).store(value);
  return CUDA_SUCCESS;
}

CUresult PerformOperation(const CUstreamBatchMemOpParams& operation) {
  const auto& wait = operation.waitValue;
  const auto& write = operation.writeValue;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return WaitForValue<uint32_t>(wait.address, wait.value, wait.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return WaitForValue<uint64_t>(wait.address, wait.value64, wait.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return WriteValue<uint32_t>(write.address, write.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return WriteValue<uint64_t>(write.address, write.value64);
    default:
      // Barriers and flushes do nothing: earlier work is done, and reads and writes of values have one order.
      return CUDA_SUCCESS;
  }
}

}  // namespace

CUresult PerformCopy(const CUDA_MEMCPY3D& copy) {
  const Layout from = LayoutOf(copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcPitch, copy.srcHeight);
  const Layout to = LayoutOf(copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight);
  const char* source = Locate(copy.srcMemoryType, copy.srcHost, copy.srcDevice, from.first, Span(copy, from));
  char* target = Locate(copy.dstMemoryType, copy.dstHost, copy.dstDevice, to.first, Span(copy, to));
  if (source == nullptr || target == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (size_t z = 0; z < copy.Depth; ++z) {
    for (size_t y = 0; y < copy.Height; ++y) {
      std::memmove(target + z * to.slice + y * to.pitch, source + z * from.slice + y * from.pitch, copy.WidthInBytes);
    }
  }
  return CUDA_SUCCESS;
}

CUresult PerformSet(const CUDA_MEMSET_NODE_PARAMS& set) {
  const size_t row = set.width * set.elementSize;
  char* const target = LocateValue(set.dst, (set.height - 1) * set.pitch + row);
  if (target == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (size_t y = 0; y < set.height; ++y) {
    char* const start = target + y * set.pitch;
    for (size_t x = 0; x < row; x += set.elementSize) std::memcpy(start + x, &set.value, set.elementSize);
  }
  return CUDA_SUCCESS;
}

CUresult PerformHost(const CUDA_HOST_NODE_PARAMS& host) {
  InHostFunction() = true;
  host.fn(host.userData);
  InHostFunction() = false;
  return CUDA_SUCCESS;
}

CUresult PerformBatch(const BatchWork& batch) {
  for (const CUstreamBatchMemOpParams& operation : batch.operations) {
    if (const CUresult result = PerformOperation(operation); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
