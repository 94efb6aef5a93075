// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory of one device, for copies between device and host, and staging, which brings a stream's data to the
// host and back. Pinning a block costs more than most copies and may wait for every device, so blocks are pinned before
// programs run, kept in size classes, and reused. The pool bounds the bytes that it keeps; the reaper unpins the
// others.
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

/// Host memory that copies of every device can reach, with an event of the pool's device.
struct PinnedBlock {
  PinnedMemory memory;
  CUdeviceptr on_device = 0;  ///< The address of the memory on devices.
  Event event;
  size_t bytes = 0;
  bool in_use = false;       ///< Copies that were queued before the last record of `event` may use the block.
  uint32_t last_number = 0;  ///< The last number that a stream was asked to write to mark().

  char* data() const { return static_cast<char*>(memory.get()); }
  /// Memory after the block's bytes. A stream writes a number there when it has reached that point.
  uint32_t* mark() const { return reinterpret_cast<uint32_t*>(data() + bytes); }
  CUdeviceptr mark_on_device() const { return on_device + bytes; }
};

/// Thread-safe. GIL not needed.
class PinnedPool {
 public:
  /// Returns the pool of a device, which is kept for later programs; see ReleaseIdle.
  CALLOUT_EXPORT static Result<std::shared_ptr<PinnedPool>> On(int ordinal);
  /// Destroys the pools that nobody uses. Blocks until the driver has their memory. For callers that are done with a
  /// device.
  CALLOUT_EXPORT static void ReleaseIdle();

  /// The pool keeps at most `most_kept` bytes, or one block of each reserved size if that is more, and unpins the
  /// oldest blocks.
  explicit PinnedPool(std::unique_ptr<const Device> device, size_t most_kept = size_t{512} << 20)
      : device_(std::move(device)), most_kept_(most_kept) {}
  /// All blocks must have been given back. Their memory is unpinned when no copy uses it.
  CALLOUT_EXPORT ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  const Device& device() const { return *device_; }

  /// Returns whether streams of the device can write values. False after LearnThatNothingIsWritten.
  bool writes_values() const {
    return device_->driver().StreamWriteValue32 != nullptr && writes_values_.load(std::memory_order_relaxed);
  }
  /// Notes that the device refuses writes of streams for good. Relaxed: a thread that misses this finds out by itself.
  void LearnThatNothingIsWritten() { writes_values_.store(false, std::memory_order_relaxed); }

  /// Returns a block of at least `bytes` bytes that no copy uses. Never waits for a block: the callback that holds one
  /// may run a program that needs another. If the driver has no more memory to pin, all kept blocks are unpinned first;
  /// its error is returned only if that does not help.
  CALLOUT_EXPORT Result<PinnedBlock> Take(size_t bytes);

  /// Returns a block for use after everything that is queued on `stream` by now. If copies still use the block (see
  /// `in_use`), the device makes the stream wait for them. Requires that the device's context is current.
  CALLOUT_EXPORT Result<PinnedBlock> TakeBehind(size_t bytes, CUstream stream);

  /// Gives back a block from Take or TakeBehind. `block.in_use` is true if copies still use the block. Does not block.
  CALLOUT_EXPORT void GiveBack(PinnedBlock block);

  /// Pins a block for TakeBehind, unless a free one exists.
  CALLOUT_EXPORT Status Prepare(size_t bytes);

  /// Keeps one block for `bytes`, whatever the bound, until Unreserve.
  CALLOUT_EXPORT void Reserve(size_t bytes);
  CALLOUT_EXPORT void Unreserve(size_t bytes);

  /// The number of bytes that the pool keeps.
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

  const std::unique_ptr<const Device> device_;  // Destroyed after the blocks.
  const size_t most_kept_;
  std::atomic<bool> writes_values_{true};
  mutable Mutex mutex_;
  Blocks kept_ CALLOUT_GUARDED_BY(mutex_);  // The oldest block comes first.
  size_t kept_bytes_ CALLOUT_GUARDED_BY(mutex_) = 0;
  std::multiset<size_t> reserved_ CALLOUT_GUARDED_BY(mutex_);  // Sizes of blocks.
};

/// The pools of one call site, one for each device. Thread-safe. GIL not needed.
class PinnedPools {
 public:
  PinnedPools() = default;
  CALLOUT_EXPORT ~PinnedPools();
  PinnedPools(const PinnedPools&) = delete;
  PinnedPools& operator=(const PinnedPools&) = delete;

  /// Returns the pool of a device. Borrowed: valid as long as this object.
  CALLOUT_EXPORT Result<PinnedPool*> On(int ordinal);

  /// Pins the memory that calls with `bytes` bytes need on a device, and reserves it as long as this object lives. Must
  /// be called before each execution, when pinning blocks nobody.
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

/// One visit of a stream's data to the host, in pinned memory. The steps:
/// 1. Copies to the host are queued on the stream (ToHost).
/// 2. The thread waits for them (Wait).
/// 3. Copies to the device are queued (ToDevice).
/// Requires that the device's context is current. One thread at a time. GIL not needed; must not be held in functions
/// that block.
class Staging {
 public:
  /// `pool` must belong to the stream's device. `subject` is the callback's name in errors. Borrowed: both must outlive
  /// the result.
  CALLOUT_EXPORT static Result<Staging> Begin(PinnedPool& pool, CUstream stream, size_t bytes,
                                              std::string_view subject);
  Staging(Staging&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        stream_(other.stream_),
        subject_(other.subject_),
        block_(std::move(other.block_)),
        copying_(other.copying_) {}
  Staging& operator=(Staging&&) = delete;
  /// Gives the memory back to the pool, which reuses it after the copies. Does not block.
  CALLOUT_EXPORT ~Staging();

  /// The memory. It may be accessed after Wait(), except for parts that ToDevice() copies.
  char* data() const { return block_.data(); }

  /// These functions queue a copy of `bytes` bytes, possibly 0, between the host and a part of this device memory.
  CALLOUT_EXPORT Status ToHost(void* to, CUdeviceptr from, size_t bytes);
  CALLOUT_EXPORT Status ToDevice(CUdeviceptr to, const void* from, size_t bytes);

  /// Blocks until everything that is queued on the stream by now has run. Returns errors of earlier work, too.
  CALLOUT_EXPORT Status Wait();

 private:
  Staging(PinnedPool& pool, CUstream stream, std::string_view subject, PinnedBlock block)
      : pool_(&pool), stream_(stream), subject_(subject), block_(std::move(block)) {}
  /// Returns true if the stream will write the block's number at this point.
  Result<bool> Mark();
  /// Blocks until everything that is queued on the stream by now has run. The thread sleeps; if `looks_first`, it first
  /// polls for a while.
  Status WaitByEvent(bool looks_first);
  Status Check(CUresult result, const char* function) const {
    return pool_->device().Check(result, function, subject_);
  }

  PinnedPool* pool_;
  CUstream stream_;
  std::string_view subject_;
  PinnedBlock block_;
  bool copying_ = false;  // Copies were queued since the last wait.
};

}  // namespace callout::internal::cuda
