// SPDX-License-Identifier: Apache-2.0
//
// The records of one device on their way to the host. A record's steps:
// 1. The program takes a slot, queues copies into it on its stream, and goes on.
// 2. The device runs the copies, and then marks the slot as arrived.
// 3. The drainer hands the slots to the queues, in the order in which they were taken.
// Each worker has a ring of its own, so that a slow Python tap delays no native one.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/thread_annotations.h"
#include "core/delivery/delivery.h"
#include "cuda/driver/pinned_pool.h"
#include "cuda/taps/side_stage.h"
#include "cuda/taps/tap_slot.h"

namespace callout::internal {

/// The part of the drainer that devices use.
struct TapDrainer {
  std::atomic<uint64_t> outstanding{0};  ///< The number of records on their way from all devices.
  std::function<void()> wake = [] {};    ///< Must be called when a record is queued. Thread-safe.
};

class TapDevice {
 public:
  /// `ring_bytes` is the pinned memory that each worker gets for its first record. Borrowed: `drainer` must outlive the
  /// result.
  static Result<std::shared_ptr<TapDevice>> New(Delivery& delivery, TapDrainer& drainer, int ordinal,
                                                uint64_t ring_bytes);
  TapDevice(Delivery& delivery, TapDrainer& drainer, std::shared_ptr<cuda::PinnedPool> pool, uint64_t ring_bytes)
      : delivery_(delivery), drainer_(drainer), pool_(std::move(pool)), ring_bytes_(ring_bytes) {}
  ~TapDevice();

  const cuda::Device& device() const { return pool_->device(); }
  int ordinal() const { return device().ordinal(); }

  /// Allocates the ring of a worker if there is none. Thread-safe. GIL not needed.
  Status Prepare(Worker worker);
  /// Allocates everything else that records like this one use: pinned blocks, a stage on the device, code. If that
  /// fails, records are sent without. May wait for all devices, so must be called before a program runs. Thread-safe.
  void PrepareFor(Worker worker, const DeviceSending& sending);

  /// Queues the copies of a record that its site's senders have admitted. Blocks until the device has made room. If the
  /// queue is full as well, the site's policy decides: the record is dropped and counted, or fails, or this Blocks
  /// until the queue has room, but never on a delivery thread. Errors, which name their callback: the driver's, the
  /// policy's, and those of an earlier record of the device. Thread-safe. GIL not needed, and must not be held.
  Status Take(TapSite& site, const DeviceSending& sending);

  /// Hands on records that have arrived, as far as the queues have room. Returns whether there were any. One thread.
  bool Flush();
  /// Asks the device whether it still works. If not, records that have not arrived are lost. One thread.
  void Check();

  /// Reports the failure of a record if no program has received it.
  void ReportFailure();
  /// Makes Take refuse records from now on; wakes programs that wait, and returns their number. Thread-safe.
  uint64_t Close();

  /// The numbers of a worker's records since the start: those that were taken, and those of them that have left this
  /// device. Thread-safe.
  uint64_t taken(Worker worker) const { return RingOf(worker).taken.load(std::memory_order_acquire); }
  uint64_t flushed(Worker worker) const { return RingOf(worker).flushed.load(std::memory_order_seq_cst); }
  /// A capacity of 0 means that there was no record. Thread-safe.
  UpstreamStats Statistics(Worker worker) const;

 private:
  enum class State : int { kQueuing, kQueued, kCancelled };
  struct Entry {
    Entry(TapSlot* in_memory, cuda::CUdeviceptr address, uint64_t end_of_space, const SlotShape& of_slot)
        : slot(in_memory), on_device(address), end(end_of_space), shape(of_slot) {}

    TapSlot* slot;
    cuda::CUdeviceptr on_device;
    uint64_t end;             // The end of the entry's space in the ring.
    cuda::PinnedBlock block;  // The memory of a record outside of the ring.
    SlotShape shape;
    std::shared_ptr<SideStage> stage;  // Null: the data goes straight to the host.
    cuda::CUdeviceptr staged = 0;      // The data's address in the stage.
    uint64_t end_in_stage = 0;
    std::atomic<State> state{State::kQueuing};
    // Used by the drainer only, for a record that has arrived and waits for room in its queue.
    bool is_decided = false;
    bool is_notice = false;
  };
  struct Ring {
    cuda::PinnedBlock memory;
    std::optional<RingSpace> space;  // Empty: there is no memory yet.
    std::deque<Entry> entries;
    std::shared_ptr<SideStage> stage;  // Null: there was no large record.
    // The smallest sizes for which allocating a stage, or a pinned block, failed. Such sizes are not tried again.
    uint64_t no_stage_from = UINT64_MAX;
    uint64_t no_block_from = UINT64_MAX;
    uint64_t block_bytes = 0;  // Bytes of all records outside of the ring.
    uint64_t blocked = 0;
    bool is_stuck = false;  // The first entry has arrived, and its queue is full.
    uint32_t next_number = 1;
    std::atomic<uint64_t> taken{0};
    std::atomic<uint64_t> flushed{0};
  };
  struct Failure {
    std::shared_ptr<Callback> callback;
    Status status;
  };
  enum class Outcome { kDone, kStays, kQueueFull };

  Ring& RingOf(Worker worker) { return rings_[static_cast<size_t>(worker)]; }
  const Ring& RingOf(Worker worker) const { return rings_[static_cast<size_t>(worker)]; }

  Status Described(const Callback& callback, const Status& status) const;
  Status TakeFailure(const TapSite& site);
  void Fail(TapSite& site, Status status);

  bool NeedsBlock(uint64_t bytes) const { return bytes > ring_bytes_ / 2; }
  bool HasRoom(Ring& ring, uint64_t bytes) const CALLOUT_REQUIRES(mutex_);
  /// Returns whether waiting for room may succeed: waiting for the device, or, with kBlock, for the queue.
  bool IsWorthWaiting(const Ring& ring, const TapSite& site) const CALLOUT_REQUIRES(mutex_) {
    return !closed_ && broken_.ok() && (site.policy == OverflowPolicy::kBlock || !ring.is_stuck);
  }
  Status WaitForRoom(Ring& ring, const TapSite& site, const DeviceSending& sending, uint64_t bytes)
      CALLOUT_REQUIRES(mutex_);
  /// Returns a slot, or null if the record was dropped.
  Result<Entry*> Reserve(TapSite& site, const DeviceSending& sending, const SlotShape& shape);
  Result<Entry*> ReserveBlock(Ring& ring, TapSite& site, const SlotShape& shape);
  Entry* Append(Ring& ring, TapSite& site, char* memory, cuda::CUdeviceptr on_device, const SlotShape& shape)
      CALLOUT_REQUIRES(mutex_);
  static void TakeStage(Ring& ring, Entry& entry);
  Status NoRoom(Ring& ring, uint64_t bytes) const;
  Status Queue(Entry& entry, TapSite& site, const DeviceSending& sending);
  Status QueueData(Entry& entry, const DeviceSending& sending);
  Status QueueByTheSide(Entry& entry, const DeviceSending& sending);
  void PrepareStage(Ring& ring, uint64_t bytes) CALLOUT_REQUIRES(preparing_);
  void PrepareBlock(Ring& ring, uint64_t bytes) CALLOUT_REQUIRES(preparing_);
  void PrepareGather() CALLOUT_REQUIRES(preparing_);

  Status Ask() const;
  bool Flush(Ring& ring);
  Entry* Front(Ring& ring);
  void MarkStuck(Ring& ring);
  Outcome HandOn(Entry& entry);
  Outcome Deliver(Entry& entry);
  void LeaveOut(Entry& entry);
  void Lose(Entry& entry);
  void Pop(Ring& ring);

  Delivery& delivery_;
  TapDrainer& drainer_;
  const std::shared_ptr<cuda::PinnedPool> pool_;  // Outlives the handles.
  const uint64_t ring_bytes_;
  std::atomic<Publication> publication_{Publication::kWriteValue};
  cuda::Stream check_stream_;  // Used by the drainer only.
  cuda::Event check_event_;
  std::unique_ptr<const SideStream> side_;
  // Set by the first PrepareGather that succeeds, and then never changed.
  std::atomic<const LeafGather*> gather_{nullptr};
  Mutex preparing_;  // Locked before mutex_.
  std::unique_ptr<const LeafGather> own_gather_ CALLOUT_GUARDED_BY(preparing_);
  bool gather_failed_ CALLOUT_GUARDED_BY(preparing_) = false;

  mutable Mutex mutex_;
  std::condition_variable_any room_;
  std::array<Ring, kWorkerCount> rings_;  // Guarded by `mutex_`, except for atomic members.
  uint64_t waiting_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool closed_ CALLOUT_GUARDED_BY(mutex_) = false;
  Status broken_ CALLOUT_GUARDED_BY(mutex_);  // The context's error, which stays.
  std::optional<Failure> failure_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
