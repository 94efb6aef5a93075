// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory of one device, for copies between the device and the host, and the visit of a stream's data to the
// host. Pinning a block costs more than most copies and may wait for every device, so blocks are pinned before
// programs run, kept in size classes and lent again. The kept bytes are bounded; the reaper gives the rest back to
// the driver.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "callout/export.h"
#include "core/base/thread_annotations.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {

/// Host memory that copies of every device reach, and an event of the pool's device beside it.
struct PinnedBlock {
  PinnedMemory memory;
  CUdeviceptr on_device = 0;  ///< Where devices see it.
  Event event;
  size_t bytes = 0;
  bool in_use = false;       ///< By copies that were queued before `event` was recorded last.
  uint32_t last_number = 0;  ///< That a stream was to write to mark().

  char* data() const { return static_cast<char*>(memory.get()); }
  /// A place behind the bytes, for what a stream writes when it has got that far.
  uint32_t* mark() const { return reinterpret_cast<uint32_t*>(data() + bytes); }
  CUdeviceptr mark_on_device() const { return on_device + bytes; }
};

/// Thread-safe. GIL not needed.
class PinnedPool {
 public:
  /// The pool of a device. It stays for later programs: see ReleaseIdle.
  CALLOUT_EXPORT static Result<std::shared_ptr<PinnedPool>> On(int ordinal);
  /// Gives the pools back that nobody holds. Blocks until the driver has their memory. For who ends with a device.
  CALLOUT_EXPORT static void ReleaseIdle();

  /// Beyond `most_kept` bytes, or one block of each reserved size if that is more, the oldest blocks are given back.
  explicit PinnedPool(std::unique_ptr<const Device> device, size_t most_kept = size_t{512} << 20)
      : device_(std::move(device)), most_kept_(most_kept) {}
  /// All blocks have come back. Their memory goes when no copy uses it.
  CALLOUT_EXPORT ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  const Device& device() const { return *device_; }

  /// Whether streams of the device write values. False after LearnThatNothingIsWritten.
  bool writes_values() const {
    return device_->driver().StreamWriteValue32 != nullptr && writes_values_.load(std::memory_order_relaxed);
  }
  /// What a stream was asked to write was refused for good. Relaxed: whoever misses it finds out by itself.
  void LearnThatNothingIsWritten() { writes_values_.store(false, std::memory_order_relaxed); }

  /// A block of at least `bytes` that no copy uses. It never waits for one: the callback that holds a block may run a
  /// program that needs another. The error of a driver that has no more memory to pin is told once all that was kept
  /// has been given back to it.
  CALLOUT_EXPORT Result<PinnedBlock> Take(size_t bytes);

  /// The same for who touches the block only behind what is queued on `stream` by now: copies that use it, as
  /// `in_use` says, are awaited there by the device. The device's context is current.
  CALLOUT_EXPORT Result<PinnedBlock> TakeBehind(size_t bytes, CUstream stream);

  /// The other end of Take. `block.in_use` says whether copies still use it. Does not block.
  CALLOUT_EXPORT void GiveBack(PinnedBlock block);

  /// Pins a block for TakeBehind, if there is none that is not lent.
  CALLOUT_EXPORT Status Prepare(size_t bytes);

  /// From here to Unreserve, one block for `bytes` is kept, whatever else is.
  CALLOUT_EXPORT void Reserve(size_t bytes);
  CALLOUT_EXPORT void Unreserve(size_t bytes);

  /// Bytes that are kept.
  CALLOUT_EXPORT size_t kept_bytes() const;

 private:
  using Blocks = std::deque<PinnedBlock>;

  size_t Usable(size_t bytes) const;
  template <typename IsGood>
  bool TakeKept(size_t usable, IsGood&& is_good, PinnedBlock* block);
  Result<PinnedBlock> Pin(size_t usable);
  Result<PinnedBlock> Allocate(size_t usable);
  bool IsFree(PinnedBlock& block) const;
  Blocks TakeSurplus() CALLOUT_REQUIRES(mutex_);
  bool IsLastReserved(const PinnedBlock& block) const CALLOUT_REQUIRES(mutex_);
  static void Destroy(Blocks&& blocks);
  Blocks TakeAll();

  const std::unique_ptr<const Device> device_;  // let go behind the blocks
  const size_t most_kept_;
  std::atomic<bool> writes_values_{true};
  mutable Mutex mutex_;
  Blocks kept_ CALLOUT_GUARDED_BY(mutex_);  // the oldest first
  size_t kept_bytes_ CALLOUT_GUARDED_BY(mutex_) = 0;
  std::multiset<size_t> reserved_ CALLOUT_GUARDED_BY(mutex_);  // sizes of blocks
};

/// The pools that a call site uses, one a device. Thread-safe. GIL not needed.
class PinnedPools {
 public:
  PinnedPools() = default;
  CALLOUT_EXPORT ~PinnedPools();
  PinnedPools(const PinnedPools&) = delete;
  PinnedPools& operator=(const PinnedPools&) = delete;

  /// Borrowed: valid as long as this.
  CALLOUT_EXPORT Result<PinnedPool*> On(int ordinal);

  /// Pins what calls with `bytes` need on a device, and has it kept as long as this lives. To be called before each
  /// execution, where pinning stops nobody.
  CALLOUT_EXPORT Status Prepare(int ordinal, size_t bytes);

 private:
  struct OfDevice {
    std::shared_ptr<PinnedPool> pool;
    std::set<size_t> reserved;
  };

  Result<OfDevice*> Find(int ordinal) CALLOUT_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<int, OfDevice> pools_ CALLOUT_GUARDED_BY(mutex_);
};

// One visit of a stream's data to the host: in by copies on the stream, one wait, and out again.

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
