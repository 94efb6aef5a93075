// SPDX-License-Identifier: Apache-2.0
//
// The records of one device that are on their way to the host. Programs take a slot, queue the copies into it on their
// stream, and go on; the drainer hands the slots on in the order in which they were taken. Each worker has a ring of
// its own, so that a slow Python tap holds up no native one.
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

/// Who hands the records on.
struct TapDrainer {
  std::atomic<uint64_t> outstanding{0};  ///< Records of all devices.
  std::function<void()> wake = [] {};    ///< To be called when a record is queued. Thread-safe.
};

class TapDevice {
 public:
  /// `ring_bytes`: the pinned memory that a worker gets when its first record comes. `drainer` outlives this.
  static Result<std::shared_ptr<TapDevice>> New(Delivery& delivery, TapDrainer& drainer, int ordinal,
                                                uint64_t ring_bytes);
  TapDevice(Delivery& delivery, TapDrainer& drainer, std::shared_ptr<cuda::PinnedPool> pool, uint64_t ring_bytes)
      : delivery_(delivery), drainer_(drainer), pool_(std::move(pool)), ring_bytes_(ring_bytes) {}
  ~TapDevice();

  const cuda::Device& device() const { return pool_->device(); }
  int ordinal() const { return device().ordinal(); }

  /// Gets the memory for a worker, if it has none. Thread-safe. GIL not needed.
  Status Prepare(Worker worker);
  /// Gets what else records like this one need: pinned memory of their own, memory of the device on their way out,
  /// code. Where there is none of these, they are sent without. May wait for all devices: before a program runs.
  /// Thread-safe.
  void PrepareFor(Worker worker, const DeviceSending& sending);

  /// Queues the copies of a record that its site's senders have admitted. Where there is no room, Blocks until the
  /// device has got so far that there is. If that does not help, since the queue behind is full, the record is dropped
  /// and counted, or fails, or Blocks until there is room there, as the site's policy says; the latter never on a
  /// delivery thread. Errors: of the driver, of the policy, and what an earlier record of the device came to. They name
  /// their callback. Thread-safe. GIL not needed, and must not be held.
  Status Take(TapSite& site, const DeviceSending& sending);

  /// Hands on what has arrived, as far as there is room for it. True if there was something. One thread.
  bool HandOver();
  /// Asks the device whether it still works. If not, records that have not arrived are lost. One thread.
  void Check();

  /// What a record came to, if no program was told.
  void ReportFailure();
  /// From now on nothing is taken; releases programs that wait, and returns how many did. Thread-safe.
  uint64_t Close();

  /// Records of a worker that were taken since the start, and those of them of which nothing is left here. Thread-safe.
  uint64_t taken(Worker worker) const { return RingOf(worker).taken.load(std::memory_order_acquire); }
  uint64_t handed_over(Worker worker) const { return RingOf(worker).handed_over.load(std::memory_order_seq_cst); }
  /// Zero capacity: there was no record. Thread-safe.
  UpstreamStats Statistics(Worker worker) const;

 private:
  enum class State : int { kQueuing, kQueued, kCancelled };
  struct Entry {
    Entry(TapSlot* in_memory, cuda::CUdeviceptr address, uint64_t end_of_space, const SlotShape& of_slot)
        : slot(in_memory), on_device(address), end(end_of_space), shape(of_slot) {}

    TapSlot* slot;
    cuda::CUdeviceptr on_device;
    uint64_t end;             // of the ring's space
    cuda::PinnedBlock block;  // of a record that is not in the ring
    SlotShape shape;
    std::shared_ptr<SideStage> stage;  // null: its data goes straight to the host
    cuda::CUdeviceptr staged = 0;      // there
    uint64_t end_in_stage = 0;
    std::atomic<State> state{State::kQueuing};
    // The drainer's own, for a record that has arrived and waits for room in its queue.
    bool is_decided = false;
    bool is_notice = false;
  };
  struct Ring {
    cuda::PinnedBlock memory;
    std::optional<RingSpace> space;  // nothing: there is no memory yet
    std::deque<Entry> entries;
    std::shared_ptr<SideStage> stage;  // null: there was no large record
    // The smallest sizes that there was no memory for, of the device's and pinned: it is not asked for again.
    uint64_t no_stage_from = UINT64_MAX;
    uint64_t no_block_from = UINT64_MAX;
    uint64_t block_bytes = 0;  // of records that have blocks of their own
    uint64_t blocked = 0;
    bool is_stuck = false;  // the first entry has arrived, and its queue is full
    uint32_t next_number = 1;
    std::atomic<uint64_t> taken{0};
    std::atomic<uint64_t> handed_over{0};
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
  /// True if waiting for room may end: for the device, or, if the policy says so, for the queue.
  bool IsWorthWaiting(const Ring& ring, const TapSite& site) const CALLOUT_REQUIRES(mutex_) {
    return !closed_ && broken_.ok() && (site.policy == OverflowPolicy::kBlock || !ring.is_stuck);
  }
  Status WaitForRoom(Ring& ring, const TapSite& site, const DeviceSending& sending, uint64_t bytes)
      CALLOUT_REQUIRES(mutex_);
  /// A slot, or null if the record was dropped.
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
  bool HandOver(Ring& ring);
  Entry* Front(Ring& ring);
  void MarkStuck(Ring& ring);
  Outcome HandOn(Entry& entry);
  Outcome Deliver(Entry& entry);
  void LeaveOut(Entry& entry);
  void Lose(Entry& entry);
  void Pop(Ring& ring);

  Delivery& delivery_;
  TapDrainer& drainer_;
  const std::shared_ptr<cuda::PinnedPool> pool_;  // outlives the handles below
  const uint64_t ring_bytes_;
  std::atomic<Publication> publication_{Publication::kWriteValue};
  cuda::Stream check_stream_;  // the drainer's own
  cuda::Event check_event_;
  std::unique_ptr<const SideStream> side_;
  // Made by the first that prepares for it, and then never changed.
  std::atomic<const LeafGather*> gather_{nullptr};
  Mutex preparing_;  // before mutex_
  std::unique_ptr<const LeafGather> own_gather_ CALLOUT_GUARDED_BY(preparing_);
  bool gather_failed_ CALLOUT_GUARDED_BY(preparing_) = false;

  mutable Mutex mutex_;
  std::condition_variable_any room_;
  std::array<Ring, kWorkerCount> rings_;  // guarded, but for the atomic ones
  uint64_t waiting_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool closed_ CALLOUT_GUARDED_BY(mutex_) = false;
  Status broken_ CALLOUT_GUARDED_BY(mutex_);  // by the context's error, which stays
  std::optional<Failure> failure_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
