// SPDX-License-Identifier: Apache-2.0
//
// Queries of addresses (Driver API, Unified Addressing).
#include <cstring>

#include "driver/state.h"

namespace callout::software_gpu {
namespace {

bool IsOfDevice(const MemoryRange& range) {
  return range.kind == MemoryKind::kDevice || range.kind == MemoryKind::kMapped;
}

// Returns the access flags of a device, for the current context's device.
unsigned int AccessBy(const MemoryRange& range, int device) {
  if (range.WritableBy(device)) return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
  return range.ReadableBy(device) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

template <typename T>
CUresult Put(void* to, T value) {
  std::memcpy(to, &value, sizeof(value));
  return CUDA_SUCCESS;
}

CUresult GetAttribute(const Call& call, void* to, CUpointer_attribute attribute, CUdeviceptr address) {
  State& state = call.state();
  const MemoryRange range = state.memory.RangeAt(address);
  if (range.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  CUcontext const context =
      range.context != nullptr ? range.context : state.contexts[static_cast<size_t>(range.device)].get();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Put(to, context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Put<unsigned int>(
          to, IsOfDevice(range) || range.kind == MemoryKind::kManaged ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Put(to, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return IsOfDevice(range) ? CUDA_ERROR_INVALID_VALUE : Put(to, address);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Put<unsigned int>(to, range.kind == MemoryKind::kManaged ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(to, range.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Put(to, range.begin);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Put(to, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Put<unsigned int>(to, 1);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Put<unsigned long long>(to, range.id);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Put<unsigned int>(to, 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Put<unsigned long long>(to, 0);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Put(to, range.pool);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Put<unsigned int>(to, AccessBy(range, call.context() != nullptr ? call.context()->device : range.device));
    default:
      return state.Refuse("the attribute " + std::to_string(attribute) + " of a pointer");
  }
}

}  // namespace

extern "C" CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const Call call("cuPointerGetAttribute", kInitialized);
  return call.refused() ? call.result() : GetAttribute(call, value, attribute, address);
}

// For an unknown address, all results are zero (Driver API, cuPointerGetAttributes).
extern "C" CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** values,
                                           CUdeviceptr address) {
  const Call call("cuPointerGetAttributes", kInitialized);
  if (call.refused()) return call.result();
  const bool known = call.state().memory.RangeAt(address).bytes != 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (known && GetAttribute(call, values[i], attributes[i], address) == CUDA_SUCCESS) continue;
    const bool word = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                      attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED || attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      Put(values[i], -2);
    } else if (word) {
      Put(values[i], 0U);
    } else {
      Put<uint64_t>(values[i], 0);
    }
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuPointerSetAttribute(const void*, CUpointer_attribute attribute, CUdeviceptr address) {
  const Call call("cuPointerSetAttribute", kInitialized);
  if (call.refused()) return call.result();
  if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  return call.state().memory.RangeAt(address).bytes != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace callout::software_gpu
