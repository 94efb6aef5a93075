// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "driver/enqueue.h"
#include "driver/graph_run.h"

namespace callout::software_gpu {
namespace {

constexpr size_t kPinnedAlignment = 4096;

char* FindPinned(State& state, const void* at, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  auto next = state.pinned.upper_bound(const_cast<void*>(at));
  if (next == state.pinned.begin()) return nullptr;
  const auto& [start, pinned] = *--next;
  const size_t offset = address - reinterpret_cast<uintptr_t>(start);
  return offset < pinned.bytes && bytes <= pinned.bytes - offset ? static_cast<char*>(start) + offset : nullptr;
}

bool IsDeviceMemory(State& state, const void* at) {
  return state.memory.Find(reinterpret_cast<CUdeviceptr>(at), 1).memory != nullptr;
}

// Memory that is not pinned is read from `staged`, if it is given, and by a graph at each of its launches.
CUresult EnqueueCopy(State& state, CUcontext current, CUstream stream, const CUDA_MEMCPY3D& copy,
                     const std::shared_ptr<std::string>& staged) {
  CUDA_MEMCPY3D now = copy;
  if (staged != nullptr) now.srcHost = staged->data();
  return Enqueue(state, current, stream,
                 {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                  .record = [&](WorkPtr* work) { return MakeCopyWork(state, current, copy, work); },
                  .run = [now, staged] { return PerformCopy(now); }});
}

}  // namespace

CUcontext PinnedContext(State& state, CUdeviceptr address) {
  auto* const at = reinterpret_cast<void*>(address);
  return FindPinned(state, at, 1) != nullptr ? std::prev(state.pinned.upper_bound(at))->second.context : nullptr;
}

char* FindMemory(State& state, CUdeviceptr address, size_t bytes) {
  if (char* memory = state.memory.Find(address, bytes).memory; memory != nullptr) return memory;
  if (char* memory = FindPinned(state, reinterpret_cast<void*>(address), bytes); memory != nullptr) return memory;
  return state.reaches_host_memory ? reinterpret_cast<char*>(address) : nullptr;
}

extern "C" CUresult cuMemAlloc_v2(CUdeviceptr* memory, size_t bytes) {
  const Call call("cuMemAlloc", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUdeviceptr address = call.state().memory.Allocate(call.context(), bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = address;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemFree_v2(CUdeviceptr memory) {
  Call call("cuMemFree", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  if (memory == 0) return CUDA_SUCCESS;
  State& state = call.state();
  const auto place = state.memory.Find(memory, 1);
  if (place.memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Freeing waits for whoever may be using it, as a driver does.
  const auto queues = PendingQueues(state, place.context);
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  const std::lock_guard lock(state.mutex);
  return state.memory.Free(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Call call("cuMemGetInfo", kContext);
  if (call.refused()) return call.result();
  *total = DeviceMemoryMap::kCapacity;
  *free = *total - call.state().memory.used(call.context());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  const Call call("cuMemHostAlloc", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (posix_memalign(memory, kPinnedAlignment, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(*memory, kSoftwareGpuFill, bytes);
  call.state().pinned[*memory] = {bytes, call.context()};
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemFreeHost(void* memory) {
  Call call("cuMemFreeHost", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.pinned.contains(memory)) return CUDA_ERROR_INVALID_VALUE;
  const auto queues = PendingQueues(state, call.context());
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  const std::lock_guard lock(state.mutex);
  if (state.pinned.erase(memory) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(memory);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned int flags) {
  const Call call("cuMemHostGetDevicePointer", kContext);
  if (call.refused()) return call.result();
  if (flags != 0 || FindPinned(call.state(), host, 1) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  const Call call("cuMemcpyHtoDAsync", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, to, bytes) == nullptr || IsDeviceMemory(state, from)) return CUDA_ERROR_INVALID_VALUE;
  // Pinned memory is read when the copy runs; anything else is copied aside now.
  std::shared_ptr<std::string> staged;
  if (FindPinned(state, from, bytes) == nullptr) {
    staged = std::make_shared<std::string>(static_cast<const char*>(from), bytes);
  }
  CUDA_MEMCPY3D copy = RowOf(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_HOST, reinterpret_cast<CUdeviceptr>(from), bytes);
  return EnqueueCopy(state, call.context(), stream, copy, staged);
}

extern "C" CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyDtoHAsync", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, from, bytes) == nullptr || IsDeviceMemory(state, to)) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D copy =
      RowOf(CU_MEMORYTYPE_HOST, reinterpret_cast<CUdeviceptr>(to), CU_MEMORYTYPE_UNIFIED, from, bytes);
  const CUresult result = EnqueueCopy(state, call.context(), stream, copy, nullptr);
  CUstream found = FindStream(state, call.context(), stream);
  if (result != CUDA_SUCCESS || found->capture != nullptr || FindPinned(state, to, bytes) != nullptr) return result;
  // To memory that is not pinned a copy is done when the call returns.
  const Mark mark = EnqueueMark(state, found);
  CUcontext context = found->context;
  call.Unlock();
  mark.Wait();
  return context->fault;
}

extern "C" CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const Call call("cuMemcpyDtoDAsync", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, to, bytes) == nullptr || FindMemory(state, from, bytes) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = RowOf(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_UNIFIED, from, bytes);
  return EnqueueCopy(state, call.context(), stream, copy, nullptr);
}

extern "C" CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const Call call("cuMemsetD8Async", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, to, bytes) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS set{
      .dst = to, .pitch = 0, .value = value, .elementSize = 1, .width = bytes, .height = 1};
  return Enqueue(state, call.context(), stream,
                 {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                  .record = [&](WorkPtr* work) { return MakeSetWork(state, call.context(), set, work); },
                  .run = [set] { return PerformSet(set); }});
}

}  // namespace callout::software_gpu
