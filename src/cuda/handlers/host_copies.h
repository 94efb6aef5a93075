// SPDX-License-Identifier: Apache-2.0
//
// The buffers of a call on CUDA, on the host for as long as its callback runs.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "callout/abi.h"
#include "core/base/small_buffer.h"
#include "cuda/driver/pinned_pool.h"

namespace callout::internal {

/// For one call, on its thread. GIL not needed, and not to be held.
class HostCopies {
 public:
  /// The pinned memory that a call with these buffers needs.
  static size_t Bytes(std::span<const callout_buffer> args, std::span<const callout_buffer> results);

  /// `pool`: of the stream's device. `subject`: whom errors name. All outlive this.
  HostCopies(cuda::PinnedPool& pool, cuda::CUstream stream, std::string_view subject,
             std::span<const callout_buffer> args, std::span<const callout_buffer> results);

  /// Copies the arguments. Blocks until that, and whatever was queued before it, has run. Once.
  Status In();

  /// Pinned memory, after In(). Borrowed: valid until Out().
  std::span<const callout_buffer> args() const { return {host_args_.data(), host_args_.size()}; }
  std::span<const callout_buffer> results() const { return {host_results_.data(), host_results_.size()}; }

  /// Queues the copies of the results. Once.
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
