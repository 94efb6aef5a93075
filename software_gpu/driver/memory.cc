// SPDX-License-Identifier: Apache-2.0
//
// Memory that is allocated and freed synchronously (Driver API, Memory Management).
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver/enqueue.h"

namespace callout::software_gpu {
namespace {

constexpr size_t kPinnedAlignment = 4096;
constexpr unsigned int kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned int kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

CUresult AllocateOnHost(State& state, CUcontext context, MemoryKind kind, size_t bytes, unsigned int flags,
                        void** memory) {
  void* made = nullptr;
  if (posix_memalign(&made, kPinnedAlignment, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(made, kSoftwareGpuFill, std::min(bytes, MemoryMap::kFillLimit));
  state.memory.Add({.begin = reinterpret_cast<CUdeviceptr>(made),
                    .bytes = bytes,
                    .host = static_cast<char*>(made),
                    .kind = kind,
                    .context = context,
                    .device = context->device,
                    .flags = flags});
  *memory = made;
  return CUDA_SUCCESS;
}

// Waits for all work that may use memory, as a driver does before it frees.
void WaitForAll(Call& call, CUcontext context) {
  const auto queues = PendingQueues(call.state(), context);
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
}

CUresult FreeOnHost(Call& call, void* memory, MemoryKind kind) {
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  const MemoryRange found = call.state().memory.RangeAt(begin);
  if (found.begin != begin || found.kind != kind || found.host == nullptr) return CUDA_ERROR_INVALID_VALUE;
  WaitForAll(call, call.context());
  if (call.state().memory.Remove(begin, kind).host == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kind != MemoryKind::kRegistered) std::free(memory);
  return CUDA_SUCCESS;
}

}  // namespace

CUcontext PinnedContext(State& state, CUdeviceptr address) { return state.memory.FindHost(address, 1).context; }

bool IsPageable(State& state, CUdeviceptr address) {
  return state.memory.RangeAt(address).bytes == 0 && !state.memory.IsOfDevice(address) && !IsReserved(state, address);
}

char* FindMemory(State& state, CUdeviceptr address, size_t bytes) {
  if (char* memory = state.memory.Find(address, bytes).memory; memory != nullptr) return memory;
  if (state.memory.FindHost(address, bytes).host != nullptr) return reinterpret_cast<char*>(address);
  return state.reaches_host_memory ? reinterpret_cast<char*>(address) : nullptr;
}

extern "C" CUresult cuMemAlloc_v2(CUdeviceptr* memory, size_t bytes) {
  const Call call("cuMemAlloc", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0 || memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUdeviceptr address = call.state().memory.Allocate(call.context(), bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = address;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAllocPitch_v2(CUdeviceptr* memory, size_t* pitch, size_t width, size_t height,
                                       unsigned int element) {
  const Call call("cuMemAllocPitch", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  if (width == 0 || height == 0 || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  *memory = call.state().memory.Allocate(call.context(), *pitch * height);
  return *memory != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

extern "C" CUresult cuMemAllocManaged(CUdeviceptr* memory, size_t bytes, unsigned int flags) {
  const Call call("cuMemAllocManaged", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result = AllocateOnHost(call.state(), call.context(), MemoryKind::kManaged, bytes, flags, &made);
  if (result == CUDA_SUCCESS) *memory = reinterpret_cast<CUdeviceptr>(made);
  return result;
}

extern "C" CUresult cuMemFree_v2(CUdeviceptr memory) {
  Call call("cuMemFree", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  if (memory == 0) return CUDA_SUCCESS;
  const MemoryRange range = call.state().memory.RangeAt(memory);
  if (range.begin != memory || range.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (range.kind == MemoryKind::kManaged) {
    return FreeOnHost(call, reinterpret_cast<void*>(memory), MemoryKind::kManaged);
  }
  if (range.kind != MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  WaitForAll(call, range.context);
  return call.state().memory.Free(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Call call("cuMemGetInfo", kContext);
  if (call.refused()) return call.result();
  *total = MemoryMap::kCapacity;
  *free = *total - call.state().memory.used(call.context());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetAddressRange_v2(CUdeviceptr* begin, size_t* bytes, CUdeviceptr address) {
  const Call call("cuMemGetAddressRange", kContext);
  if (call.refused()) return call.result();
  const MemoryRange range = call.state().memory.RangeAt(address);
  if (range.bytes == 0) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = range.begin;
  if (bytes != nullptr) *bytes = range.bytes;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  const Call call("cuMemHostAlloc", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0 || (flags & ~kHostAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  return AllocateOnHost(call.state(), call.context(), MemoryKind::kPinned, bytes, flags, memory);
}

extern "C" CUresult cuMemAllocHost_v2(void** memory, size_t bytes) {
  const Call call("cuMemAllocHost", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return AllocateOnHost(call.state(), call.context(), MemoryKind::kPinned, bytes, 0, memory);
}

extern "C" CUresult cuMemFreeHost(void* memory) {
  Call call("cuMemFreeHost", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  return FreeOnHost(call, memory, MemoryKind::kPinned);
}

extern "C" CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned int flags) {
  const Call call("cuMemHostRegister", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & ~kRegisterFlags) != 0) return call.state().Refuse("registering memory of devices or for reading only");
  const bool added = call.state().memory.Add({.begin = reinterpret_cast<CUdeviceptr>(memory),
                                              .bytes = bytes,
                                              .host = static_cast<char*>(memory),
                                              .kind = MemoryKind::kRegistered,
                                              .context = call.context(),
                                              .device = call.context()->device,
                                              .flags = flags});
  return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

extern "C" CUresult cuMemHostUnregister(void* memory) {
  Call call("cuMemHostUnregister", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  const CUresult result = FreeOnHost(call, memory, MemoryKind::kRegistered);
  return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

extern "C" CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned int flags) {
  const Call call("cuMemHostGetDevicePointer", kContext);
  if (call.refused()) return call.result();
  const MemoryRange range = call.state().memory.FindHost(reinterpret_cast<CUdeviceptr>(host), 1);
  if (flags != 0 || range.host == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemHostGetFlags(unsigned int* flags, void* host) {
  const Call call("cuMemHostGetFlags", kContext);
  if (call.refused()) return call.result();
  const MemoryRange range = call.state().memory.FindHost(reinterpret_cast<CUdeviceptr>(host), 1);
  if (range.host == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = range.flags;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
