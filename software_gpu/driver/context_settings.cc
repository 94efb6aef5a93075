// SPDX-License-Identifier: Apache-2.0
//
// Queries and settings of contexts: the current one, flags, limits, peers (Driver API, Context Management, Primary
// Context Management, Peer Context Memory Access).
#include "driver/enqueue.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

// The limits of a fresh context on an H100.
size_t DefaultLimit(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return size_t{8} << 20;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return size_t{8} << 20;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return 64;
    default:
      return 0;
  }
}

bool IsLimit(CUlimit limit) { return limit >= 0 && limit < CU_LIMIT_MAX; }

}  // namespace

extern "C" CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  const Call call("cuDevicePrimaryCtxGetState", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const CUctx_st& context = *call.state().contexts[static_cast<size_t>(device)];
  *flags = context.flags;
  *active = context.retained > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  const Call call("cuDevicePrimaryCtxSetFlags", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return CUDA_ERROR_INVALID_VALUE;
  call.state().contexts[static_cast<size_t>(device)]->flags = flags;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxSetCurrent(CUcontext context) {
  const Call call("cuCtxSetCurrent", kInitialized);
  if (call.refused()) return call.result();
  if (context != nullptr && !IsContext(call.state(), context)) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<CUcontext>& stack = ContextStack();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetDevice(CUdevice* device) {
  const Call call("cuCtxGetDevice", kInitialized);
  if (call.refused()) return call.result();
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = call.context()->device;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  const Call call("cuCtxGetDevice", kInitialized);
  if (call.refused()) return call.result();
  if (context == nullptr) context = call.context();
  if (!IsContext(call.state(), context)) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetFlags(unsigned int* flags) {
  const Call call("cuCtxGetFlags", kContext);
  if (!call.refused()) *flags = call.context()->flags;
  return call.result();
}

extern "C" CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  const Call call("cuCtxGetId", kInitialized);
  if (call.refused()) return call.result();
  if (context == nullptr) context = call.context();
  if (!IsContext(call.state(), context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = static_cast<unsigned long long>(context->device) + 1;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  const Call call("cuCtxGetApiVersion", kInitialized);
  if (call.refused()) return call.result();
  if (context != nullptr && !IsContext(call.state(), context)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = static_cast<unsigned int>(call.state().version);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  const Call call("cuCtxGetStreamPriorityRange", kContext);
  if (call.refused()) return call.result();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  const Call call("cuCtxGetLimit", kContext);
  if (call.refused()) return call.result();
  if (!IsLimit(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const auto set = call.context()->limits.find(limit);
  *value = set != call.context()->limits.end() ? set->second : DefaultLimit(limit);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  const Call call("cuCtxSetLimit", kContext);
  if (call.refused()) return call.result();
  if (!IsLimit(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  call.context()->limits[limit] = value;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  const Call call("cuCtxEnablePeerAccess", kContext);
  if (call.refused()) return call.result();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!IsContext(call.state(), peer) || peer == call.context()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(call.context()->peers_mutex);
  return call.context()->peers.insert(peer).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

extern "C" CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  const Call call("cuCtxDisablePeerAccess", kContext);
  if (call.refused()) return call.result();
  if (!IsContext(call.state(), peer)) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(call.context()->peers_mutex);
  return call.context()->peers.erase(peer) != 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace callout::software_gpu
