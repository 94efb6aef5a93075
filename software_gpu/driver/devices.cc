// SPDX-License-Identifier: Apache-2.0
//
// The driver itself and its devices, which look like small H100s.
#include <algorithm>
#include <cstdio>

#include "driver/state.h"

namespace callout::software_gpu {
namespace {

int AttributeValue(int attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return kMaxThreads;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return kSharedBytes;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return kSharedBytesOptIn;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return kMultiprocessors;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
      return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    default:
      return 0;
  }
}

}  // namespace

extern "C" CUresult cuInit(unsigned int flags) {
  const Call call("cuInit", kAlways);
  if (call.refused()) return call.result();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (call.state().contexts.empty()) return CUDA_ERROR_NO_DEVICE;
  call.state().initialized = true;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDriverGetVersion(int* version) {
  const Call call("cuDriverGetVersion", kAlways);
  if (!call.refused()) *version = call.state().version;
  return call.result();
}

extern "C" CUresult cuDeviceGetCount(int* count) {
  const Call call("cuDeviceGetCount", kInitialized);
  if (!call.refused()) *count = static_cast<int>(call.state().contexts.size());
  return call.result();
}

extern "C" CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const Call call("cuDeviceGet", kInitialized, std::to_string(ordinal));
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  const Call call("cuDeviceGetName", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(std::max(length, 0)), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const Call call("cuDeviceGetAttribute", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = AttributeValue(attribute);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  const Call call("cuDeviceGetPCIBusId", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(std::max(length, 0)), "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  const Call call("cuDeviceTotalMem", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = DeviceMemoryMap::kCapacity;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
