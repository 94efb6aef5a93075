// SPDX-License-Identifier: Apache-2.0
//
// libnvidia-ml: shows the driver's devices on PCIe of the fifth generation, without NVLink or a fabric.
#include <array>
#include <cstdint>
#include <cstdio>

#include "libraries/client.h"
#include "libraries/log.h"

namespace {

enum Status : int { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6 };

constexpr const char* kDriverVersion = "580.65.06";
constexpr unsigned int kLanes = 16;
constexpr unsigned int kMegabitsOfLane = 32000;
constexpr unsigned int kSpeedOf32000 = 5;  // NVML_PCIE_LINK_MAX_SPEED_32000MBPS
constexpr unsigned int kGeneration = 5;

// A handle is the address of its device's entry.
std::array<char, 64> places;

int Count(unsigned int* count) {
  int found = 0;
  callout::software_gpu::CallDriver("cuInit", 0U);
  const int result = callout::software_gpu::CallDriver("cuDeviceGetCount", &found);
  *count = result == 0 ? static_cast<unsigned int>(found) : 0;
  return kSuccess;
}

int HandleOf(unsigned int index, void** device) {
  unsigned int count = 0;
  Count(&count);
  if (index >= count || index >= places.size()) return kInvalidArgument;
  *device = &places[index];
  return kSuccess;
}

int HandleOfBus(const char* bus, void** device) {
  int index = 0;
  callout::software_gpu::CallDriver("cuInit", 0U);
  if (callout::software_gpu::CallDriver("cuDeviceGetByPCIBusId", &index, bus) != 0) return kNotFound;
  return HandleOf(static_cast<unsigned int>(index), device);
}

int Copy(const char* text, char* to, unsigned int bytes) {
  std::snprintf(to, bytes, "%s", text);
  return kSuccess;
}

int Give(unsigned int value, unsigned int* to) {
  *to = value;
  return kSuccess;
}

int Clear(unsigned int* values, int count) {
  for (int i = 0; i < count; ++i) values[i] = 0;
  return kSuccess;
}

// Mirrors nvmlFieldValue_t.
struct Field {
  unsigned int id;
  unsigned int scope;
  int64_t timestamp;
  int64_t latency;
  int type;
  int status;
  uint64_t value;
};
constexpr unsigned int kNvLinks = 91;  // NVML_FI_DEV_NVLINK_LINK_COUNT
constexpr int kUnsigned = 1;           // NVML_VALUE_TYPE_UNSIGNED_INT

int ReadFields(int count, Field* fields) {
  for (int i = 0; i < count; ++i) {
    const bool known = fields[i].id == kNvLinks;
    fields[i].type = kUnsigned;
    fields[i].status = known ? kSuccess : kNotSupported;
    fields[i].value = 0;
  }
  return kSuccess;
}

}  // namespace

#define CALLOUT_NVML(name, parameters, ...) \
  CALLOUT_LIBRARY_EXPORT int name parameters { return __VA_ARGS__; }

CALLOUT_NVML(nvmlInit, (), kSuccess)
CALLOUT_NVML(nvmlInit_v2, (), kSuccess)
CALLOUT_NVML(nvmlInitWithFlags, (unsigned int), kSuccess)
CALLOUT_NVML(nvmlShutdown, (), kSuccess)
CALLOUT_LIBRARY_EXPORT const char* nvmlErrorString(int status) {
  return status == kSuccess ? "Success" : "Not Supported by the software GPU";
}
CALLOUT_NVML(nvmlSystemGetDriverVersion, (char* to, unsigned int bytes), Copy(kDriverVersion, to, bytes))
CALLOUT_NVML(nvmlSystemGetNVMLVersion, (char* to, unsigned int bytes), Copy(kDriverVersion, to, bytes))
CALLOUT_NVML(nvmlSystemGetCudaDriverVersion, (int* version),
             callout::software_gpu::CallDriver("cuDriverGetVersion", version))
CALLOUT_NVML(nvmlSystemGetCudaDriverVersion_v2, (int* version),
             callout::software_gpu::CallDriver("cuDriverGetVersion", version))
CALLOUT_NVML(nvmlDeviceGetCount_v2, (unsigned int* count), Count(count))
CALLOUT_NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, void** device), HandleOf(index, device))
CALLOUT_NVML(nvmlDeviceGetHandleByPciBusId, (const char* bus, void** device), HandleOfBus(bus, device))
CALLOUT_NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char* bus, void** device), HandleOfBus(bus, device))
CALLOUT_NVML(nvmlDeviceGetIndex, (void* device, unsigned int* index),
             Give(static_cast<unsigned int>(static_cast<char*>(device) - places.data()), index))
CALLOUT_NVML(nvmlDeviceGetPcieLinkMaxSpeed, (void*, unsigned int* speed), Give(kSpeedOf32000, speed))
CALLOUT_NVML(nvmlDeviceGetPcieSpeed, (void*, unsigned int* speed), Give(kMegabitsOfLane, speed))
CALLOUT_NVML(nvmlDeviceGetMaxPcieLinkWidth, (void*, unsigned int* lanes), Give(kLanes, lanes))
CALLOUT_NVML(nvmlDeviceGetCurrPcieLinkWidth, (void*, unsigned int* lanes), Give(kLanes, lanes))
CALLOUT_NVML(nvmlDeviceGetMaxPcieLinkGeneration, (void*, unsigned int* generation), Give(kGeneration, generation))
CALLOUT_NVML(nvmlDeviceGetCurrPcieLinkGeneration, (void*, unsigned int* generation), Give(kGeneration, generation))
CALLOUT_NVML(nvmlDeviceGetNvLinkState, (void*, unsigned int, unsigned int*), kNotSupported)
CALLOUT_NVML(nvmlDeviceGetNvLinkVersion, (void*, unsigned int, unsigned int*), kNotSupported)
CALLOUT_NVML(nvmlDeviceGetNvLinkCapability, (void*, unsigned int, int, unsigned int*), kNotSupported)
CALLOUT_NVML(nvmlDeviceGetP2PStatus, (void*, void*, int, int*), kNotSupported)
CALLOUT_NVML(nvmlDeviceGetFieldValues, (void*, int count, Field* fields), ReadFields(count, fields))
CALLOUT_NVML(nvmlDeviceGetGpuFabricInfo, (void*, void*), kNotSupported)
CALLOUT_NVML(nvmlDeviceGetGpuFabricInfoV, (void*, void*), kNotSupported)
CALLOUT_NVML(nvmlDeviceGetMigMode, (void*, unsigned int* current, unsigned int* pending),
             Clear(current, 1) + Clear(pending, 1))
CALLOUT_NVML(nvmlSystemGetConfComputeState, (unsigned int* state), Clear(state, 3))
