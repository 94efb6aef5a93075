// SPDX-License-Identifier: Apache-2.0
//
// One visit of a stream's data to the host: in by copies on the stream, one wait, and out again.
#pragma once

#include <string_view>

#include "callout/export.h"
#include "cuda/driver/pinned_pool.h"

namespace callout::internal::cuda {

/// Pinned memory for one visit. The device's context is current. For one thread at a time. GIL not needed, and not to
/// be held where it says that it blocks.
class Staging {
 public:
  /// `pool` is the one of the stream's device. `subject`: whom errors name. Both outlive this.
  CALLOUT_EXPORT static Result<Staging> Begin(PinnedPool& pool, CUstream stream, size_t bytes,
                                              std::string_view subject);
  Staging(Staging&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        stream_(other.stream_),
        subject_(other.subject_),
        block_(std::move(other.block_)),
        copying_(other.copying_) {}
  Staging& operator=(Staging&&) = delete;
  /// Lends the memory to somebody else once the copies have run. Does not block.
  CALLOUT_EXPORT ~Staging();

  /// The memory. To be touched after Wait(), and not after ToDevice() of what lies there.
  char* data() const { return block_.data(); }

  /// Queue a copy of `bytes`, which may be none, to or from a place in the memory.
  CALLOUT_EXPORT Status ToHost(void* to, CUdeviceptr from, size_t bytes);
  CALLOUT_EXPORT Status ToDevice(CUdeviceptr to, const void* from, size_t bytes);

  /// Blocks until everything that is queued on the stream by now has run. An error of earlier work arrives here.
  CALLOUT_EXPORT Status Wait();

 private:
  Staging(PinnedPool& pool, CUstream stream, std::string_view subject, PinnedBlock block)
      : pool_(&pool), stream_(stream), subject_(subject), block_(std::move(block)) {}
  /// True if the stream is going to write the block's number when it gets here.
  Result<bool> Mark();
  /// Blocks likewise, asleep; awake at first if it `looks_first`.
  Status WaitByEvent(bool looks_first);
  Status Check(CUresult result, const char* function) const {
    return pool_->device().Check(result, function, subject_);
  }

  PinnedPool* pool_;
  CUstream stream_;
  std::string_view subject_;
  PinnedBlock block_;
  bool copying_ = false;  // since the last wait
};

}  // namespace callout::internal::cuda
