// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver of this machine, opened with dlopen: there is no CUDA at build or link time, and no driver is a
// normal state that a Status describes.
#pragma once

#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/dynamic_library.h"
#include "cuda/driver/driver_functions.h"

namespace callout::internal::cuda {

/// What was tried, for errors: "cuLaunchKernel of 'scale' on device 0".
struct Attempt {
  const char* function;           ///< Its CUDA name.
  std::string_view subject = {};  ///< What it was called for; may be empty. Borrowed: valid until the call returns.
  int device = -1;                ///< Ordinal; -1: none.
};

/// The table of one driver library. Thread-safe. GIL not needed.
class Driver : public DriverFunctions {
 public:
  /// The process's driver, initialized; opened by the first call. What went wrong then is what every later call gets.
  CALLOUT_EXPORT static Result<const Driver*> Get();

  /// A driver library as dlopen takes it, opened once a process and path and never closed. Not initialized: before
  /// Initialize() only its version can be asked for.
  CALLOUT_EXPORT static Result<const Driver*> Open(const std::string& path);

  /// The environment's CALLOUT_CUDA_DRIVER, or libcuda.so.1.
  CALLOUT_EXPORT static std::string DefaultPath();

  /// Does nothing if it was done.
  CALLOUT_EXPORT Status Initialize() const;

  /// Ok, or an error with CUDA's name and number of `result`, what was attempted, and on which device.
  CALLOUT_EXPORT Status Check(CUresult result, const Attempt& attempt) const;

  const std::string& path() const { return library_.path(); }
  /// As CUDA counts: 13000 is 13.0.
  int version() const { return version_; }

 private:
  explicit Driver(DynamicLibrary library) : library_(std::move(library)) {}
  static Result<const Driver*> Load(const std::string& path);
  Status Resolve();

  DynamicLibrary library_;
  int version_ = 0;
};

}  // namespace callout::internal::cuda
