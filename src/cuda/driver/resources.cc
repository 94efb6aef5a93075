// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/resources.h"

#include <string>

#include "core/base/cat.h"

namespace callout::internal::cuda {
namespace {

std::string BytesText(size_t bytes) { return Cat(bytes, " bytes"); }

}  // namespace

Result<Stream> CreateStream(const Device& device) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUstream stream = nullptr;
  CALLOUT_RETURN_IF_ERROR(
      device.Check(device.driver().StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(device, stream);
}

Result<Event> CreateEvent(const Device& device, unsigned int flags) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUevent event = nullptr;
  CALLOUT_RETURN_IF_ERROR(device.Check(device.driver().EventCreate(&event, flags), "cuEventCreate"));
  return Event(device, event);
}

Result<DeviceMemory> AllocateDevice(const Device& device, size_t bytes) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUdeviceptr memory = 0;
  CALLOUT_RETURN_IF_ERROR(device.Check(device.driver().MemAlloc(&memory, bytes), "cuMemAlloc", BytesText(bytes)));
  return DeviceMemory(device, memory);
}

Result<PinnedMemory> AllocatePinned(const Device& device, size_t bytes) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  void* memory = nullptr;
  constexpr unsigned int kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  CALLOUT_RETURN_IF_ERROR(
      device.Check(device.driver().MemHostAlloc(&memory, bytes, kFlags), "cuMemHostAlloc", BytesText(bytes)));
  return PinnedMemory(device, memory);
}

Result<CUdeviceptr> DeviceAddressOf(const Device& device, const PinnedMemory& memory) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUdeviceptr address = 0;
  CALLOUT_RETURN_IF_ERROR(
      device.Check(device.driver().MemHostGetDevicePointer(&address, memory.get(), 0), "cuMemHostGetDevicePointer"));
  return address;
}

Status CopyOnDevice(const Device& device, CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                    std::string_view subject) {
  if (to == from || bytes == 0) return OkStatus();
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  return device.Check(device.driver().MemcpyDtoDAsync(to, from, bytes, stream), "cuMemcpyDtoDAsync", subject);
}

Status Synchronize(const Device& device, CUstream stream, std::string_view subject) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  const AsideOfCaptures aside(device.driver());  // Other threads may be capturing.
  return device.Check(device.driver().StreamSynchronize(stream), "cuStreamSynchronize", subject);
}

Result<bool> IsCapturing(const Device& device, CUstream stream) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  return IsCapturing(device.driver(), stream, device.ordinal());
}

Result<bool> IsCapturing(const Driver& driver, CUstream stream, int ordinal) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id = 0;
  CALLOUT_RETURN_IF_ERROR(driver.Check(driver.StreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr),
                                       {.function = "cuStreamGetCaptureInfo", .device = ordinal}));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace callout::internal::cuda
