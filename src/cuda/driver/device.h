// SPDX-License-Identifier: Apache-2.0
//
// One device: its properties, and its primary context, which XLA uses as well.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "callout/export.h"
#include "core/base/process_state.h"
#include "cuda/driver/driver.h"

namespace callout::internal::cuda {

/// Returns false once the process is exiting, when the driver may be gone, and in a forked child, where CUDA does not
/// work. Thread-safe.
inline bool MayCallDriver() { return !ProcessIsExiting() && !ProcessIsForkedChild(); }

/// A device's properties. Reading them needs no context.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  std::string pci_id;
  int major = 0;  ///< The compute capability.
  int minor = 0;
  size_t memory_bytes = 0;
};

/// These functions require an initialized `driver`. Thread-safe.
CALLOUT_EXPORT Result<int> DeviceCount(const Driver& driver);
CALLOUT_EXPORT Result<DeviceInfo> DescribeDevice(const Driver& driver, int ordinal);

/// A device whose primary context is retained. Handles on a device must be destroyed before it. Thread-safe. GIL not
/// needed.
class Device {
 public:
  CALLOUT_EXPORT static Result<std::unique_ptr<const Device>> Retain(const Driver& driver, int ordinal);
  /// Releases the context if the driver may still be called. Does not block.
  CALLOUT_EXPORT ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice id() const { return id_; }
  CUcontext context() const { return context_; }

  /// Reads one of CU_DEVICE_ATTRIBUTE_*.
  CALLOUT_EXPORT Result<int> Attribute(int attribute) const;

  /// Calls Driver::Check with this device's ordinal.
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

/// Makes a context the current one of the thread until the scope ends. Does nothing for a null context, or if the
/// context is current already, as in XLA's handlers. Must be destroyed on the thread that made it.
class ContextScope {
 public:
  explicit ContextScope(const Device& device) : ContextScope(device.driver(), device.context(), device.ordinal()) {}
  CALLOUT_EXPORT ContextScope(const Driver& driver, CUcontext context, int ordinal);
  CALLOUT_EXPORT ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  /// Returns Ok if the context is current. May be called once.
  Status TakeStatus() { return std::move(status_); }

 private:
  const Driver& driver_;
  bool pushed_ = false;
  Status status_;
};

/// Until the scope ends, this thread may make calls that would otherwise invalidate stream captures: its own, and those
/// of other threads that forbid such calls to all threads. For calls that belong to no capture, such as queries of
/// events, and the destruction of older handles. Must be destroyed on the thread that made it.
class AsideOfCaptures {
 public:
  CALLOUT_EXPORT explicit AsideOfCaptures(const Driver& driver);
  CALLOUT_EXPORT ~AsideOfCaptures();
  AsideOfCaptures(const AsideOfCaptures&) = delete;
  AsideOfCaptures& operator=(const AsideOfCaptures&) = delete;

 private:
  const Driver& driver_;
  int mode_;  ///< The thread's previous capture mode.
};

}  // namespace callout::internal::cuda
