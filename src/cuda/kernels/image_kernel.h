// SPDX-License-Identifier: Apache-2.0
//
// The kernel of a call site, ready to be launched on each device that runs the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"
#include "cuda/driver/kernel.h"

namespace callout::internal {

/// Names the globals in which a kernel that was compiled for debugging reports the exception of a thread.
struct Faults {
  std::string symbol;                   ///< An s32: 0, or the code of the exception.
  std::array<std::string, 6> place;     ///< The x, y, z of the thread and of the block, each an s32; "" if absent.
  std::map<int32_t, std::string> text;  ///< The meaning of each code.
};

/// Eight bytes of the parameters that hold the address of a buffer.
struct AddressSlot {
  size_t position;  ///< An offset in ImageCall::parameter_block.
  size_t operand;   ///< Counts arguments first, then results.
};

/// A parameter with which the kernel copies boxes of a buffer.
struct TensorMapSlot {
  size_t position;  ///< An offset in ImageCall::parameter_block.
  size_t operand;
  cuda::TensorMapShape shape;
};

struct ImageCall {
  std::string name;   ///< For errors.
  std::string bytes;  ///< A cubin, a fat binary, or PTX.
  std::string symbol;
  cuda::LaunchShape shape;
  bool fills_device = false;            ///< Launches as many blocks along x as run at the same time, not the shape's.
  std::vector<size_t> parameter_bytes;  ///< The size of each parameter.
  std::string parameter_block;          ///< All parameters, one after another.
  std::vector<AddressSlot> addresses;
  std::vector<TensorMapSlot> tensor_maps;
  std::optional<Faults> faults;

  /// InvalidArgument if the parts contradict each other.
  CALLOUT_EXPORT Status Check() const;

 private:
  Status CheckCluster() const;
};

/// A loaded image. The last program that uses it unloads it.
struct ImageLibrary {
  cuda::Library library;
};

/// Returns the library of `bytes`, which is loaded if nobody holds it. `name` is for errors. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<const ImageLibrary>> LoadImage(const cuda::Driver& driver,
                                                                     const std::string& bytes, const std::string& name);

/// Notes that this process made the image itself, so that programs may carry it even if embedded code is refused.
/// Thread-safe.
CALLOUT_EXPORT void ExpectImage(const std::string& bytes);

/// Returns whether ExpectImage has noted an image with these bytes. Thread-safe.
CALLOUT_EXPORT bool IsExpectedImage(const std::string& bytes);

/// Returns the number of images that were loaded since the start. Thread-safe.
CALLOUT_EXPORT int64_t ImagesLoaded();

/// A kernel on one device. Thread-safe. GIL not needed.
class LoadedKernel {
 public:
  /// Finds the kernel in its image, and compares its parameters with `call`'s. Borrowed: all arguments must outlive the
  /// result.
  static Result<std::unique_ptr<const LoadedKernel>> Load(const ImageCall& call, const cuda::Driver& driver,
                                                          const cuda::Library& library, int ordinal);

  const cuda::Device& device() const { return *device_; }

  /// Queues a launch on `stream`, or captures it, with the addresses of the operands. Requires that the device's
  /// context is current.
  Status Launch(cuda::CUstream stream, std::span<const cuda::CUdeviceptr> operands) const;

  /// Queues a write that clears the fault. Requires a call with faults.
  Status ClearFaults(cuda::CUstream stream) const;
  /// Blocks until everything on `stream` has run. Returns the exception that a thread has raised since ClearFaults, or
  /// another error of the stream.
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
  cuda::LaunchShape shape_;  // The shape on this device.
  cuda::CUfunction function_ = nullptr;
  Global fault_code_;
};

/// The kernel of a call site on all devices that run it. Thread-safe. GIL not needed.
class ImageKernel {
 public:
  /// Requires a `call` that Check accepts.
  explicit ImageKernel(ImageCall call) : call_(std::move(call)) {}

  const ImageCall& call() const { return call_; }

  /// Returns the kernel on a device. The first call for a device loads it, and must not come during a capture.
  /// Borrowed: valid as long as this object.
  Result<const LoadedKernel*> On(int ordinal);

 private:
  const ImageCall call_;
  Mutex mutex_;
  std::shared_ptr<const ImageLibrary> library_ CALLOUT_GUARDED_BY(mutex_);  // Outlives the kernels.
  std::map<int, std::unique_ptr<const LoadedKernel>> loaded_ CALLOUT_GUARDED_BY(mutex_);
};

/// Returns the number of launches of kernels that this process has queued or captured. Thread-safe.
CALLOUT_EXPORT int64_t ImageLaunches();

}  // namespace callout::internal
