// SPDX-License-Identifier: Apache-2.0
//
// Kernels from the bytes of an image. Libraries and kernels belong to no context; a kernel's function does.
// Thread-safe. GIL not needed.
// EncodeTensorMap makes the parameters by which a kernel's tensor memory accelerator copies boxes of an array.
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

/// What is asked of cuTensorMapEncodeTiled besides the address, in its order: the fastest axis first.
struct TensorMapShape {
  static constexpr uint32_t kMostAxes = 5;

  int type = 0;  ///< CUtensorMapDataType
  uint32_t rank = 1;
  std::array<uint64_t, kMostAxes> dims{};
  std::array<uint64_t, kMostAxes> strides{};  ///< Bytes, from the second axis on.
  std::array<uint32_t, kMostAxes> box{};
  std::array<uint32_t, kMostAxes> element_strides{};
  int interleave = 0;
  int swizzle = 0;
  int promotion = 0;
  int fill = 0;
};

/// Makes `map` that of an array at `address`. It touches no memory of the device, and may be called while a stream is
/// captured. InvalidArgument if the shape or the address is not one that the accelerator has. Thread-safe.
CALLOUT_EXPORT Status EncodeTensorMap(const Device& device, const TensorMapShape& shape, CUdeviceptr address,
                                      std::string_view name, CUtensorMap& map);

/// A cubin, a fat binary, or PTX that ends with a NUL. The driver copies `image`. `name` is for errors. A driver may
/// accept any image here and refuse it where it is first used: driver 580 does.
CALLOUT_EXPORT Result<Library> LoadLibrary(const Driver& driver, const void* image, const std::string& name);

/// The error of a library's first use, and what the driver's compiler says of its image. With a current context.
CALLOUT_EXPORT Status Explained(Status failed, const Driver& driver, const void* image);

/// Borrowed: valid as long as the library.
CALLOUT_EXPORT Result<CUkernel> FindKernel(const Driver& driver, const Library& library, const std::string& name);

/// What `kernel` is in the device's context, with its code, from CUDA 12.4 on: no launch has anything to load. Do it
/// before a stream is captured, not while.
/// Borrowed: valid as long as the kernel's library.
CALLOUT_EXPORT Result<CUfunction> FindFunction(const Device& device, CUkernel kernel, const std::string& name);

struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

/// What the image says of the kernel's parameters. Unimplemented before CUDA 12.4.
CALLOUT_EXPORT Result<std::vector<Parameter>> Parameters(const Device& device, CUfunction function,
                                                         const std::string& name);

/// Permits launches with that much dynamic shared memory, and with what was permitted before. More than 48 KB together
/// with the kernel's own needs permission.
CALLOUT_EXPORT Status PermitSharedMemory(const Device& device, CUfunction function, int bytes, const std::string& name);

/// How many blocks of `threads` threads run at once, so that they can wait for each other. 0: the device has no such
/// launches. The device's context is current.
CALLOUT_EXPORT Result<int64_t> MostCooperativeBlocks(const Device& device, CUfunction function, int threads,
                                                     size_t shared_bytes, const std::string& name);

struct LaunchShape {
  unsigned int grid[3] = {1, 1, 1};
  unsigned int block[3] = {1, 1, 1};
  unsigned int shared_bytes = 0;
  bool cooperative = false;             ///< All blocks run at once, so that they can wait for each other.
  unsigned int cluster[3] = {0, 0, 0};  ///< Blocks of a cluster; 0: those that the kernel was compiled for, if any.
  bool dependent = false;  ///< It may begin before the kernel in front of it ends (programmatic dependent launch).
  std::optional<int> priority = std::nullopt;  ///< Lower numbers first; none: the stream's.

  /// True if cuLaunchKernel cannot say it.
  bool is_extended() const { return cluster[0] != 0 || dependent || priority.has_value(); }
};

/// Blocks of the clusters that the function was compiled for (__cluster_dims__). 0: for none.
CALLOUT_EXPORT Result<int64_t> CompiledCluster(const Device& device, CUfunction function, const std::string& name);

/// Permits clusters of more than 8 blocks, which not every device has.
CALLOUT_EXPORT Status PermitLargeClusters(const Device& device, CUfunction function, const std::string& name);

/// Queues one launch on `stream`, or records it. The device's context is current. The driver copies the parameters
/// before this returns.
CALLOUT_EXPORT Status Launch(const Device& device, CUfunction function, const LaunchShape& shape, CUstream stream,
                             void** parameters, std::string_view name);

}  // namespace callout::internal::cuda
