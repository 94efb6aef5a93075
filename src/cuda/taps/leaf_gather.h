// SPDX-License-Identifier: Apache-2.0
//
// A kernel that copies many pieces of a device's memory in one launch: a copy for each leaf of a tree costs more than
// the leaves.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/driver/kernel.h"

namespace callout::internal {

/// What is copied from where to where, as the kernel reads it. Both are addresses of the device, pinned memory
/// included.
struct CopiedPiece {
  cuda::CUdeviceptr to;
  cuda::CUdeviceptr from;
  uint64_t bytes;
};

/// The kernel on one device. Thread-safe. GIL not needed.
class LeafGather {
 public:
  /// Loads code, which may wait for every device: not on a thread that launches. `device` outlives this.
  static Result<std::unique_ptr<const LeafGather>> Load(const cuda::Device& device);

  /// Queues that `count` pieces are copied, of which the largest has `most_bytes`. `pieces` is where the device sees
  /// them; they stay until they have been copied. The device's context is current.
  Status Queue(cuda::CUstream stream, cuda::CUdeviceptr pieces, uint32_t count, uint64_t most_bytes) const;

 private:
  explicit LeafGather(const cuda::Device& device) : device_(device) {}

  const cuda::Device& device_;
  cuda::Library library_;
  cuda::CUfunction function_ = nullptr;
};

}  // namespace callout::internal
