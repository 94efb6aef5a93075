// SPDX-License-Identifier: Apache-2.0
//
// The kernel of a call site, ready to be launched on each device that runs the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "core/base/thread_annotations.h"
#include "cuda/kernels/image_call.h"
#include "cuda/kernels/image_libraries.h"

namespace callout::internal {

/// A kernel on one device. Thread-safe. GIL not needed.
class LoadedKernel {
 public:
  /// Finds the kernel in its image, and compares its parameters with `call`'s. All of these outlive it.
  static Result<std::unique_ptr<const LoadedKernel>> Load(const ImageCall& call, const cuda::Driver& driver,
                                                          const cuda::Library& library, int ordinal);

  const cuda::Device& device() const { return *device_; }

  /// Queues one launch on `stream`, or records it, with the addresses of the operands. The device's context is current.
  Status Launch(cuda::CUstream stream, std::span<const cuda::CUdeviceptr> operands) const;

  /// Queues that no fault was seen. For calls with faults.
  Status ClearFaults(cuda::CUstream stream) const;
  /// Blocks until everything on `stream` has run. The error that a thread raised since ClearFaults, or that came up.
  Status Wait(cuda::CUstream stream) const;

 private:
  struct Global {
    cuda::CUdeviceptr address = 0;
    size_t bytes = 0;
  };

  LoadedKernel(const ImageCall& call, const cuda::Library& library, std::unique_ptr<const cuda::Device> device)
      : call_(call), library_(library), device_(std::move(device)), shape_(call.shape) {}
  Status Resolve();
  Status FindCode();
  Status CheckParameters() const;
  Status CheckLaunch();
  Status CheckCluster(uint64_t blocks) const;
  Status CheckCooperation(uint64_t threads);
  Status PutOperands(std::span<const cuda::CUdeviceptr> operands, char* block) const;
  Result<Global> FindGlobal(const std::string& symbol) const;
  Result<int32_t> Read(const Global& global, cuda::CUstream stream) const;
  Status FaultStatus(int32_t code, cuda::CUstream stream) const;

  std::string Where() const;

  const ImageCall& call_;
  const cuda::Library& library_;
  const std::unique_ptr<const cuda::Device> device_;
  cuda::LaunchShape shape_;  // on this device
  cuda::CUfunction function_ = nullptr;
  Global fault_code_;
};

/// The kernel of a call site on all devices that run it. Thread-safe. GIL not needed.
class ImageKernel {
 public:
  /// `call` was checked.
  explicit ImageKernel(ImageCall call) : call_(std::move(call)) {}

  const ImageCall& call() const { return call_; }

  /// Loaded by the first call for a device, which must not come while a stream is captured. Borrowed: valid as long as
  /// this.
  Result<const LoadedKernel*> On(int ordinal);

 private:
  const ImageCall call_;
  Mutex mutex_;
  std::shared_ptr<const ImageLibrary> library_ CALLOUT_GUARDED_BY(mutex_);  // outlives the kernels below
  std::map<int, std::unique_ptr<const LoadedKernel>> loaded_ CALLOUT_GUARDED_BY(mutex_);
};

/// Launches that were queued or recorded since the start. Thread-safe.
CALLOUT_EXPORT int64_t ImageLaunches();

}  // namespace callout::internal
