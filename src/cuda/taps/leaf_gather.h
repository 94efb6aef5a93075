// SPDX-License-Identifier: Apache-2.0
//
// A kernel that copies many pieces of a device's memory in one launch: for the leaves of a tree, a copy each would cost
// more than the data.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/driver/kernel.h"

namespace callout::internal {

/// One copy, in the layout that the kernel reads. Both addresses are the device's, and may be those of pinned memory.
struct CopiedPiece {
  cuda::CUdeviceptr to;
  cuda::CUdeviceptr from;
  uint64_t bytes;
};

/// The kernel on one device. Thread-safe. GIL not needed.
class LeafGather {
 public:
  /// Loads the code, which may wait for every device, so must not be called on a thread that launches. Borrowed:
  /// `device` must outlive the result.
  static Result<std::unique_ptr<const LeafGather>> Load(const cuda::Device& device);

  /// Queues the copies of `count` pieces, the largest of which has `most_bytes` bytes. `pieces` is the device's address
  /// of the descriptions, which must stay valid until the copies have run. Requires that the device's context is
  /// current.
  Status Queue(cuda::CUstream stream, cuda::CUdeviceptr pieces, uint32_t count, uint64_t most_bytes) const;

 private:
  explicit LeafGather(const cuda::Device& device) : device_(device) {}

  const cuda::Device& device_;
  cuda::Library library_;
  cuda::CUfunction function_ = nullptr;
};

}  // namespace callout::internal
