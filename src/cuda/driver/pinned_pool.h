// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory of one device, for copies between it and the host. To pin a block costs more than most copies, so
// blocks are kept in size classes and lent again; what is kept is bounded.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "base/thread_annotations.h"
#include "callout/export.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {

/// Host memory that copies of every device reach, and an event of the pool's device beside it.
struct PinnedBlock {
  PinnedMemory memory;
  Event event;
  size_t bytes = 0;
  bool in_use = false;  ///< By copies that were queued before `event` was recorded last.

  char* data() const { return static_cast<char*>(memory.get()); }
};

/// Thread-safe. GIL not needed.
class PinnedPool {
 public:
  /// The pool of a device, which is made for whoever asks first, and ends with the last who holds it.
  CALLOUT_EXPORT static Result<std::shared_ptr<PinnedPool>> On(int ordinal);
  /// Beyond `most_kept` bytes the oldest blocks are given back to the driver.
  explicit PinnedPool(std::unique_ptr<const Device> device, size_t most_kept = size_t{512} << 20)
      : device_(std::move(device)), most_kept_(most_kept) {}
  /// Blocks until no copy uses the memory. All blocks have come back.
  CALLOUT_EXPORT ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  const Device& device() const { return *device_; }

  /// A block of at least `bytes` that no copy uses. It never waits for one: the callback that holds a block may run a
  /// program that needs another. The error of a driver that has no more memory to pin is told once all that was kept
  /// has been given back to it.
  CALLOUT_EXPORT Result<PinnedBlock> Take(size_t bytes);

  /// The other end of Take. `block.in_use` says whether copies still use it.
  CALLOUT_EXPORT void GiveBack(PinnedBlock block);

  /// Bytes that are kept.
  CALLOUT_EXPORT size_t kept_bytes() const;

 private:
  using Blocks = std::deque<PinnedBlock>;

  Result<PinnedBlock> Allocate(size_t bytes);
  bool IsFree(PinnedBlock& block) const;
  void Destroy(Blocks&& blocks) const;
  Blocks TakeAll();

  const std::unique_ptr<const Device> device_;  // outlives the blocks
  const size_t most_kept_;
  mutable Mutex mutex_;
  Blocks kept_ CALLOUT_GUARDED_BY(mutex_);  // the oldest first
  size_t kept_bytes_ CALLOUT_GUARDED_BY(mutex_) = 0;
};

/// The pools that a call site uses, one a device. Thread-safe. GIL not needed.
class PinnedPools {
 public:
  /// Borrowed: valid as long as this.
  CALLOUT_EXPORT Result<PinnedPool*> On(int ordinal);

 private:
  Mutex mutex_;
  std::map<int, std::shared_ptr<PinnedPool>> pools_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal::cuda
