// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory (Driver API, Stream Ordered Memory Allocator). Pools count the used memory and cache nothing:
// the system gets memory back when its free runs.
#include <cstring>

#include "driver/captures.h"
#include "driver/enqueue.h"

struct CUmemPoolHandle_st {
  int device;
  bool is_default;
  std::map<CUmemPool_attribute, cuuint64_t> attributes = {};
};

namespace callout::software_gpu {
namespace {

CUmemoryPool MakePool(State& state, CUdevice device, bool is_default) {
  auto* const pool = new CUmemPoolHandle_st{.device = device, .is_default = is_default};
  for (const CUmemPool_attribute reuse :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    pool->attributes[reuse] = 1;
  }
  state.pools.insert(pool);
  return pool;
}

CUmemoryPool DefaultPool(State& state, CUdevice device) {
  CUmemoryPool& pool = state.default_pools[device];
  if (pool == nullptr) pool = MakePool(state, device, /*is_default=*/true);
  return pool;
}

CUmemoryPool CurrentPool(State& state, CUdevice device) {
  const auto found = state.current_pools.find(device);
  return found != state.current_pools.end() ? found->second : DefaultPool(state, device);
}

// Sets `bytes` for an attribute of used or reserved memory, which are equal here. Returns false for other attributes.
bool CountUse(const State& state, CUmemoryPool pool, CUmemPool_attribute attribute, cuuint64_t* bytes) {
  const MemoryMap::PoolUse use = state.memory.used(pool);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *bytes = use.now;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *bytes = use.most;
      return true;
    default:
      return false;
  }
}

bool IsFlag(CUmemPool_attribute attribute) { return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; }

CUresult AllocateInOrder(const Call& call, CUdeviceptr* memory, size_t bytes, CUmemoryPool pool, CUstream handle) {
  State& state = call.state();
  CUstream const stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0 || memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return state.Refuse("memory that a graph allocates");
  }
  CUcontext const context = state.contexts[static_cast<size_t>(pool->device)].get();
  *memory = state.memory.Allocate(context, bytes, /*counted=*/true, pool);
  return *memory != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

void ForgetPools(State& state) {
  for (CUmemoryPool pool : state.pools) {
    state.memory.Disown(pool);
    delete pool;
  }
  state.pools.clear();
  state.default_pools.clear();
  state.current_pools.clear();
}

extern "C" CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  const Call call("cuDeviceGetDefaultMemPool", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = DefaultPool(call.state(), device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  const Call call("cuDeviceGetMemPool", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = CurrentPool(call.state(), device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  const Call call("cuDeviceSetMemPool", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!call.state().pools.contains(pool) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  call.state().current_pools[device] = pool;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  const Call call("cuMemPoolCreate", kInitialized);
  if (call.refused()) return call.result();
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!call.state().HasDevice(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = MakePool(call.state(), properties->location.id, /*is_default=*/false);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const Call call("cuMemPoolDestroy", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  // Driver API, cuMemPoolDestroy: a device's default pool cannot be destroyed; it replaces a current pool that is
  // destroyed.
  if (!state.pools.contains(pool) || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  std::erase_if(state.current_pools, [&](const auto& entry) { return entry.second == pool; });
  state.memory.Disown(pool);
  state.pools.erase(pool);
  delete pool;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const Call call("cuMemPoolSetAttribute", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
  if (cuuint64_t bytes = 0; CountUse(call.state(), pool, attribute, &bytes)) {
    // CUmemPool_attribute: the highest use can be reset to the current use, by setting zero; the other counters cannot
    // be set.
    const bool highest = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    if (!highest || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
    call.state().memory.ForgetMost(pool);
  } else if (IsFlag(attribute)) {
    pool->attributes[attribute] = static_cast<cuuint64_t>(*static_cast<int*>(value));
  } else {
    pool->attributes[attribute] = *static_cast<cuuint64_t*>(value);
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const Call call("cuMemPoolGetAttribute", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = pool->attributes.find(attribute);
  cuuint64_t held = found != pool->attributes.end() ? found->second : 0;
  CountUse(call.state(), pool, attribute, &held);
  if (IsFlag(attribute)) {
    *static_cast<int*>(value) = static_cast<int>(held);
  } else {
    *static_cast<cuuint64_t*>(value) = held;
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc*, size_t) {
  const Call call("cuMemPoolSetAccess", kInitialized);
  if (call.refused()) return call.result();
  return call.state().pools.contains(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  const Call call("cuMemPoolTrimTo", kInitialized);
  if (call.refused()) return call.result();
  return call.state().pools.contains(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuMemAllocAsync(CUdeviceptr* memory, size_t bytes, CUstream stream) {
  const Call call("cuMemAllocAsync", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  return AllocateInOrder(call, memory, bytes, CurrentPool(call.state(), call.context()->device), stream);
}

extern "C" CUresult cuMemAllocFromPoolAsync(CUdeviceptr* memory, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const Call call("cuMemAllocFromPoolAsync", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (!call.state().pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
  return AllocateInOrder(call, memory, bytes, pool, stream);
}

extern "C" CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream handle) {
  const Call call("cuMemFreeAsync", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream const stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const MemoryRange range = state.memory.RangeAt(memory);
  if (range.begin != memory || range.kind != MemoryKind::kDevice || range.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return state.Refuse("memory that a graph frees");
  }
  EnqueueWork(
      state, stream, [&state, memory] { return state.memory.Free(memory) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS; },
      [&state, memory] { state.memory.Free(memory); });
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
