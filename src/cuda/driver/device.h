// SPDX-License-Identifier: Apache-2.0
//
// One device: what it says of itself, and its primary context, which is the one that XLA uses.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "callout/export.h"
#include "core/base/process_state.h"
#include "cuda/driver/driver.h"

namespace callout::internal::cuda {

/// False once the process is exiting, when the driver may be gone, and in a forked child, for which CUDA does not work.
/// Thread-safe.
inline bool MayCallDriver() { return !ProcessIsExiting() && !ProcessIsForkedChild(); }

/// What a device says of itself. Asking needs no context.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  std::string pci_id;
  int major = 0;  ///< Of the compute capability.
  int minor = 0;
  size_t memory_bytes = 0;
};

/// Thread-safe. `driver` is initialized.
CALLOUT_EXPORT Result<int> DeviceCount(const Driver& driver);
CALLOUT_EXPORT Result<DeviceInfo> DescribeDevice(const Driver& driver, int ordinal);

/// A device whose primary context is retained. Handles that are made on it are let go before it.
/// Thread-safe. GIL not needed.
class Device {
 public:
  CALLOUT_EXPORT static Result<std::unique_ptr<const Device>> Retain(const Driver& driver, int ordinal);
  /// Lets go of the context, if it may. Does not block.
  CALLOUT_EXPORT ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice id() const { return id_; }
  CUcontext context() const { return context_; }

  /// One of CU_DEVICE_ATTRIBUTE_*.
  CALLOUT_EXPORT Result<int> Attribute(int attribute) const;

  /// Driver::Check with this device's ordinal.
  Status Check(CUresult result, const char* function, std::string_view subject = {}) const {
    return driver_.Check(result, {.function = function, .subject = subject, .device = ordinal_});
  }

 private:
  Device(const Driver& driver, int ordinal, CUdevice id, CUcontext context)
      : driver_(driver), ordinal_(ordinal), id_(id), context_(context) {}

  const Driver& driver_;
  int ordinal_;
  CUdevice id_;
  CUcontext context_;
};

/// Makes a context the thread's current one until the scope ends. Does nothing if it is that already, which is the rule
/// in XLA's handlers, nor for a null context. For the thread that made it.
class ContextScope {
 public:
  explicit ContextScope(const Device& device) : ContextScope(device.driver(), device.context(), device.ordinal()) {}
  CALLOUT_EXPORT ContextScope(const Driver& driver, CUcontext context, int ordinal);
  CALLOUT_EXPORT ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  /// Ok if the context is current. Once.
  Status TakeStatus() { return std::move(status_); }

 private:
  const Driver& driver_;
  bool pushed_ = false;
  Status status_;
};

/// Until the scope ends, this thread may call what would end a recording: its own, and those of others that forbid it
/// to all threads. For what is no part of any: questions about events, and the end of what was made before. For the
/// thread that made it.
class AsideOfCaptures {
 public:
  CALLOUT_EXPORT explicit AsideOfCaptures(const Driver& driver);
  CALLOUT_EXPORT ~AsideOfCaptures();
  AsideOfCaptures(const AsideOfCaptures&) = delete;
  AsideOfCaptures& operator=(const AsideOfCaptures&) = delete;

 private:
  const Driver& driver_;
  int mode_;  ///< What the thread's was.
};

}  // namespace callout::internal::cuda
