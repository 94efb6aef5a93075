// SPDX-License-Identifier: Apache-2.0
//
// Kernels from the bytes of an image. Libraries and kernels belong to no context; a kernel's function does.
// EncodeTensorMap makes the parameters with which a kernel's tensor memory accelerator copies boxes of an array. All
// functions are thread-safe. GIL not needed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "callout/export.h"
#include "cuda/driver/device.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {

/// The arguments of cuTensorMapEncodeTiled besides the address, in its order: the fastest axis first.
struct TensorMapShape {
  static constexpr uint32_t kMostAxes = 5;

  int type = 0;  ///< A CUtensorMapDataType.
  uint32_t rank = 1;
  std::array<uint64_t, kMostAxes> dims{};
  std::array<uint64_t, kMostAxes> strides{};  ///< In bytes, from the second axis on.
  std::array<uint32_t, kMostAxes> box{};
  std::array<uint32_t, kMostAxes> element_strides{};
  int interleave = 0;
  int swizzle = 0;
  int promotion = 0;
  int fill = 0;
};

/// Fills `map` for an array at `address`. Touches no device memory, and may be called while a stream is captured.
/// InvalidArgument if the accelerator does not support the shape or the address. Thread-safe.
CALLOUT_EXPORT Status EncodeTensorMap(const Device& device, const TensorMapShape& shape, CUdeviceptr address,
                                      std::string_view name, CUtensorMap& map);

/// Loads a cubin, a fat binary, or PTX that ends with a NUL. The driver copies `image`. `name` is for errors. A driver
/// may accept any image here and reject it at its first use: driver 580 does.
CALLOUT_EXPORT Result<Library> LoadLibrary(const Driver& driver, const void* image, const std::string& name);

/// Returns the error of a library's first use, with the log of the driver's compiler for its image. Requires a current
/// context.
CALLOUT_EXPORT Status Explained(Status failed, const Driver& driver, const void* image);

/// Returns a kernel of the library. Borrowed: valid as long as the library.
CALLOUT_EXPORT Result<CUkernel> FindKernel(const Driver& driver, const Library& library, const std::string& name);

/// Returns the function of `kernel` in the device's context. From CUDA 12.4 on, also loads its code, so that no launch
/// has to. Must be called before a stream is captured, not during the capture. Borrowed: valid as long as the kernel's
/// library.
CALLOUT_EXPORT Result<CUfunction> FindFunction(const Device& device, CUkernel kernel, const std::string& name);

struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

/// Returns the kernel's parameters, according to the image. Unimplemented before CUDA 12.4.
CALLOUT_EXPORT Result<std::vector<Parameter>> Parameters(const Device& device, CUfunction function,
                                                         const std::string& name);

/// Permits launches with `bytes` bytes of dynamic shared memory, and never lowers the limit. Without permission, a
/// launch may use 48 KB together with the kernel's own.
CALLOUT_EXPORT Status PermitSharedMemory(const Device& device, CUfunction function, int bytes, const std::string& name);

/// Returns the largest number of blocks, of `threads` threads each, that run at the same time and so can wait for each
/// other; 0 if the device has no cooperative launches. Requires that the device's context is current.
CALLOUT_EXPORT Result<int64_t> MostCooperativeBlocks(const Device& device, CUfunction function, int threads,
                                                     size_t shared_bytes, const std::string& name);

struct LaunchShape {
  unsigned int grid[3] = {1, 1, 1};
  unsigned int block[3] = {1, 1, 1};
  unsigned int shared_bytes = 0;
  bool cooperative = false;             ///< All blocks run at the same time, so that they can wait for each other.
  unsigned int cluster[3] = {0, 0, 0};  ///< The blocks of a cluster; 0: those that the kernel was compiled for, if any.
  bool dependent = false;               ///< May begin before the previous kernel ends (programmatic dependent launch).
  std::optional<int> priority = std::nullopt;  ///< Lower numbers come first; none: the stream's.

  /// Returns whether the launch needs more than cuLaunchKernel offers.
  bool is_extended() const { return cluster[0] != 0 || dependent || priority.has_value(); }
};

/// Returns the number of blocks in the clusters that the function was compiled for (__cluster_dims__); 0: none.
CALLOUT_EXPORT Result<int64_t> CompiledCluster(const Device& device, CUfunction function, const std::string& name);

/// Permits clusters of more than 8 blocks, which not every device has.
CALLOUT_EXPORT Status PermitLargeClusters(const Device& device, CUfunction function, const std::string& name);

/// Queues a launch on `stream`, or captures it. Requires that the device's context is current. The driver copies the
/// parameters before this returns.
CALLOUT_EXPORT Status Launch(const Device& device, CUfunction function, const LaunchShape& shape, CUstream stream,
                             void** parameters, std::string_view name);

}  // namespace callout::internal::cuda
