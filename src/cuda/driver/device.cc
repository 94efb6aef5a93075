// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/device.h"

#include <utility>

#include "core/base/cat.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {
namespace {

constexpr int kLongestText = 256;

}  // namespace

Result<int> DeviceCount(const Driver& driver) {
  int count = 0;
  CALLOUT_RETURN_IF_ERROR(driver.Check(driver.DeviceGetCount(&count), {.function = "cuDeviceGetCount"}));
  return count;
}

Result<DeviceInfo> DescribeDevice(const Driver& driver, int ordinal) {
  const auto check = [&](CUresult result, const char* function) {
    return driver.Check(result, {.function = function, .device = ordinal});
  };
  DeviceInfo info;
  info.ordinal = ordinal;
  CUdevice id = 0;
  CALLOUT_RETURN_IF_ERROR(check(driver.DeviceGet(&id, ordinal), "cuDeviceGet"));
  char text[kLongestText] = {};
  CALLOUT_RETURN_IF_ERROR(check(driver.DeviceGetName(text, kLongestText, id), "cuDeviceGetName"));
  info.name = text;
  CALLOUT_RETURN_IF_ERROR(check(driver.DeviceGetPCIBusId(text, kLongestText, id), "cuDeviceGetPCIBusId"));
  info.pci_id = text;
  CALLOUT_RETURN_IF_ERROR(
      check(driver.DeviceGetAttribute(&info.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, id),
            "cuDeviceGetAttribute"));
  CALLOUT_RETURN_IF_ERROR(
      check(driver.DeviceGetAttribute(&info.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, id),
            "cuDeviceGetAttribute"));
  CALLOUT_RETURN_IF_ERROR(check(driver.DeviceTotalMem(&info.memory_bytes, id), "cuDeviceTotalMem"));
  return info;
}

Result<std::unique_ptr<const Device>> Device::Retain(const Driver& driver, int ordinal) {
  CUdevice id = 0;
  CALLOUT_RETURN_IF_ERROR(driver.Check(driver.DeviceGet(&id, ordinal), {.function = "cuDeviceGet", .device = ordinal}));
  CUcontext context = nullptr;
  CALLOUT_RETURN_IF_ERROR(driver.Check(driver.DevicePrimaryCtxRetain(&context, id),
                                       {.function = "cuDevicePrimaryCtxRetain", .device = ordinal}));
  return std::unique_ptr<const Device>(new Device(driver, ordinal, id, context));
}

// The reaper releases the context after all objects that were released earlier, because it destroys them in this
// context.
Device::~Device() {
  Reaper::Get().Take({&driver_, nullptr, ordinal_, static_cast<uint64_t>(id_), [](const Driver& driver, uint64_t id) {
                        static_cast<void>(driver.DevicePrimaryCtxRelease(static_cast<CUdevice>(id)));
                      }});
}

Result<int> Device::Attribute(int attribute) const {
  int value = 0;
  CALLOUT_RETURN_IF_ERROR(
      Check(driver_.DeviceGetAttribute(&value, attribute, id_), "cuDeviceGetAttribute", Cat("attribute ", attribute)));
  return value;
}

ContextScope::ContextScope(const Driver& driver, CUcontext context, int ordinal) : driver_(driver) {
  if (context == nullptr) return;
  CUcontext current = nullptr;
  status_ = driver.Check(driver.CtxGetCurrent(&current), {.function = "cuCtxGetCurrent", .device = ordinal});
  if (!status_.ok() || current == context) return;
  status_ = driver.Check(driver.CtxPushCurrent(context), {.function = "cuCtxPushCurrent", .device = ordinal});
  pushed_ = status_.ok();
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) static_cast<void>(driver_.CtxPopCurrent(&popped));
}

AsideOfCaptures::AsideOfCaptures(const Driver& driver) : driver_(driver), mode_(CU_STREAM_CAPTURE_MODE_RELAXED) {
  static_cast<void>(driver_.ThreadExchangeStreamCaptureMode(&mode_));
}

AsideOfCaptures::~AsideOfCaptures() { static_cast<void>(driver_.ThreadExchangeStreamCaptureMode(&mode_)); }

}  // namespace callout::internal::cuda
