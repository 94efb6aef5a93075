// SPDX-License-Identifier: Apache-2.0
//
// Host copies of the buffers of a call on CUDA, which live as long as its callback runs.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "callout/abi.h"
#include "core/base/small_buffer.h"
#include "cuda/driver/pinned_pool.h"

namespace callout::internal {

/// The copies of one call; used on its thread only. GIL not needed, and must not be held.
class HostCopies {
 public:
  /// Returns the number of bytes of pinned memory that a call with these buffers needs.
  static size_t Bytes(std::span<const callout_buffer> args, std::span<const callout_buffer> results);

  /// `pool` must belong to the stream's device. `subject` is the callback's name in errors. Borrowed: all must outlive
  /// this object.
  HostCopies(cuda::PinnedPool& pool, cuda::CUstream stream, std::string_view subject,
             std::span<const callout_buffer> args, std::span<const callout_buffer> results);

  /// Copies the arguments. Blocks until these copies, and all work queued before them, have run. May be called once.
  Status In();

  /// Buffers in pinned memory, after In(). Borrowed: valid until Out().
  std::span<const callout_buffer> args() const { return {host_args_.data(), host_args_.size()}; }
  std::span<const callout_buffer> results() const { return {host_results_.data(), host_results_.size()}; }

  /// Queues the copies of the results. May be called once.
  Status Out();

 private:
  cuda::PinnedPool& pool_;
  const cuda::CUstream stream_;
  const std::string_view subject_;
  const std::span<const callout_buffer> args_;
  const std::span<const callout_buffer> results_;
  SmallBuffer<callout_buffer, 16> host_args_;
  SmallBuffer<callout_buffer, 8> host_results_;
  std::optional<cuda::Staging> staging_;
};

}  // namespace callout::internal
