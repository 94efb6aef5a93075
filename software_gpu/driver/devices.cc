// SPDX-License-Identifier: Apache-2.0
//
// The driver itself and its devices, which look like small H100s.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "driver/state.h"

namespace callout::software_gpu {
namespace {

// An H100's attributes, where they hold here, too. Features that are missing here are reported as missing.
const std::map<CUdevice_attribute, int>& Attributes() {
  static const auto* const attributes = new std::map<CUdevice_attribute, int>{
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kMaxThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, kMaxThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, kMaxThreads},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kSharedBytes},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kSharedBytesOptIn},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, kSharedBytesOfMultiprocessor},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, kReservedSharedBytes},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, kThreadsOfMultiprocessor},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, kBlocksOfMultiprocessor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, kMultiprocessors},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, kComputeCapability / 10},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
  };
  return *attributes;
}

int AttributeValue(const State& state, CUdevice_attribute attribute, CUdevice device) {
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) return state.numbers[static_cast<size_t>(device)] + 1;
  if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) return state.reaches_host_memory ? 1 : 0;
  const auto found = Attributes().find(attribute);
  return found != Attributes().end() ? found->second : 0;
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
  // All devices have one name: XLA runs a program over several devices only if their names are equal.
  std::snprintf(name, static_cast<size_t>(std::max(length, 0)), "Software H100");
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const Call call("cuDeviceGetAttribute", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = AttributeValue(call.state(), attribute, device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  const Call call("cuDeviceGetPCIBusId", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(std::max(length, 0)), "0000:%02x:00.0",
                call.state().numbers[static_cast<size_t>(device)] + 1);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  const Call call("cuDeviceTotalMem", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = MemoryMap::kCapacity;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  const Call call("cuDeviceGetUuid", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid->bytes, call.state().numbers[static_cast<size_t>(device)] + 1, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

extern "C" CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  const Call call("cuDeviceGetByPCIBusId", kInitialized);
  if (call.refused()) return call.result();
  unsigned int domain = 0;
  unsigned int bus = 0;
  unsigned int slot = 0;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<int>& numbers = call.state().numbers;
  const auto found = std::find(numbers.begin(), numbers.end(), static_cast<int>(bus) - 1);
  if (domain != 0 || slot != 0 || found == numbers.end()) return CUDA_ERROR_INVALID_DEVICE;
  *device = static_cast<int>(found - numbers.begin());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  const Call call("cuDeviceComputeCapability", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  const Call call("cuDeviceCanAccessPeer", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device) || !call.state().HasDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  const Call call("cuDeviceGetP2PAttribute", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(from) || !call.state().HasDevice(to) || from == to) return CUDA_ERROR_INVALID_DEVICE;
  // Peers have access but no atomics, as over PCIe.
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
