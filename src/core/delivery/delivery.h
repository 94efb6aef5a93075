// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous path of taps: queues by worker and device, the threads that drain them, the barrier, and shutdown.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "core/base/fork_mutex.h"
#include "core/callbacks/callback.h"
#include "core/delivery/delivery_thread.h"
#include "core/delivery/tap_rows.h"
#include "core/delivery/tap_site.h"

namespace callout::internal {

/// Counters of the records of one worker and device that are still upstream of their queue.
struct UpstreamStats {
  Worker worker = Worker::kNative;
  int32_t device_ordinal = -1;
  uint64_t records = 0;         ///< Records taken, and not yet in their queue.
  uint64_t bytes = 0;           ///< Host memory that the records occupy.
  uint64_t capacity_bytes = 0;  ///< Limit of `bytes`.
  uint64_t blocked = 0;         ///< Times that a program waited for room, since the start.
};

/// A source of records upstream of the queues: records of a GPU reach the queues through an Upstream. All functions are
/// thread-safe; the GIL is not needed. Functions that wait must not be called with the GIL held.
class Upstream {
 public:
  static constexpr int32_t kAllDevices = -1;

  virtual ~Upstream() = default;

  /// Blocks until the records that were taken before the call are in their queues or are known to be lost, or until
  /// `deadline`. Returns a description of what is outstanding; empty if nothing is.
  virtual std::vector<std::string> Flush(int32_t device_ordinal, std::chrono::steady_clock::time_point deadline) = 0;
  /// Passes on to the next barrier all failures that came up too late for their program, and that no later program has
  /// reported.
  virtual void ReportFailures() = 0;
  /// Takes ownership of the site, and passes it to Delivery::RetireFromQueues after its last record. Leaves the site if
  /// it has no record upstream.
  virtual void Retire(std::unique_ptr<TapSite>& site) = 0;
  /// Ends the threads and releases resources, until the next record.
  virtual void Park() = 0;
  /// Stops taking records, and releases programs that wait for room. Returns the number of records that will not be
  /// delivered.
  virtual uint64_t Close() = 0;

  virtual std::vector<UpstreamStats> Statistics() const = 0;
  /// Returns the number of running threads.
  virtual int RunningThreads() const = 0;
};

struct DeliveryOptions {
  /// Capacity of each queue (one for each device and worker), in bytes. At least kMinQueueBytes. The tap's
  /// OverflowPolicy decides what happens at the limit.
  uint64_t queue_bytes = 256'000'000;
  /// Threads that run Python taps. Devices are distributed over them; only one Python thread runs at a time in any
  /// case.
  int python_threads = 1;
};
inline constexpr uint64_t kMinQueueBytes = 16'000'000;

struct NamedQueueStats {
  Worker worker;
  int32_t device_ordinal;
  QueueStats stats;
  UpstreamStats upstream = {};  ///< Counters of the same worker and device.
};

/// How the sender of a record reacts to a full queue whose policy is to block.
enum class Patience {
  kWaits,
  kComesAgain,  ///< Gets Unavailable and tries again. After Shutdown this holds for every policy.
};

/// A value that a tap sends. Borrowed: valid until Push returns.
struct Sending {
  std::span<const callout_buffer> buffers;
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
  std::optional<int64_t> step = {};  ///< Only for sites whose records have a step.
  Patience patience = Patience::kWaits;
  /// For records that come from upstream: how many records their program left out before them. Empty: the current count
  /// of the site's throttle.
  std::optional<uint32_t> skipped = {};
  bool* queued = nullptr;  ///< Set to true once a record is in the queue. Null: not wanted.
  /// For records that come together: their number; the buffers are those of AdmittedRows. 0: one record.
  uint32_t rows = 0;
  std::span<const RowsOfTap> taps = {};  ///< The taps of the rows, if they are a hand-over.
};

/// Returns "python" or "native".
CALLOUT_EXPORT const char* WorkerName(Worker worker);

class CALLOUT_EXPORT Delivery {
 public:
  /// Returns the process's delivery, which is never destroyed. Thread-safe.
  static Delivery& Get();

  /// The size of a record in the queue's memory, and the bytes that count against the queue's capacity.
  struct RecordSize {
    size_t bytes;
    uint64_t charged;
  };

  Delivery();
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  /// Changes the options. `queue_bytes` applies to all queues at once, `python_threads` to devices that have no queue
  /// yet. InvalidArgument, with no effect, if an option is out of range. Thread-safe.
  Status Configure(const DeliveryOptions& options);
  /// Returns the capacity of each queue. Thread-safe.
  uint64_t queue_bytes() const;
  /// Sets the gate of a worker's batches. Must be called before the first tap of the worker.
  void SetGate(Worker worker, BatchGate gate);

  /// Returns true if records may pass through an Upstream before their queues. Thread-safe.
  bool has_upstream() const { return upstream() != nullptr; }

  /// Copies the buffers into the queue of the site's worker and the device, if the site's senders, throttle and
  /// inspector admit the record. Blocks until there is room if the site's policy is to block, but never on a delivery
  /// thread. Errors: ResourceExhausted (policy kFail), the inspector's, FailedPrecondition in a forked child.
  /// Thread-safe. GIL not needed, and must not be held where the call may block.
  Status Push(TapSite& site, const Sending& sending);

  /// Returns true if Push of this value, from any device and run, would only count it. The value is then counted.
  /// Thread-safe. GIL not needed.
  static bool Passes(TapSite& site, std::span<const callout_buffer> value);

  // The three steps of Push, for a record from upstream. Admit runs when the record is to be sent, before its values
  // have arrived; Inspect and Enqueue run when the values are there.

  /// Asks the site's senders and throttle whether to send a record, as the first step. A record that is not admitted is
  /// counted. Thread-safe. GIL not needed.
  static bool Admit(TapSite& site, int32_t device_ordinal, std::optional<int64_t> step,
                    Throttle::Place place = Throttle::Place::kInProgram);
  /// Runs the second and third step: the inspector and the queue. Blocks and fails like Push. Thread-safe.
  Status PushAdmitted(TapSite& site, const Sending& sending);
  /// Asks the inspector, as the second step. Thread-safe. GIL not needed.
  static Result<Inspector::Send> Inspect(TapSite& site, const Sending& sending);
  /// Puts the record into the queue, as the third step. Blocks and fails like Push. Thread-safe. A site with rows takes
  /// this step alone, with the tap's operands as buffers; the throttle then decides about each row.
  Status Enqueue(TapSite& site, const Sending& sending);
  /// Counts a record that its program could not send. `outcome` is not kTaken. Returns true if the site's policy makes
  /// the failure an error. Thread-safe. GIL not needed.
  bool Refuse(TapSite& site, int32_t device_ordinal, BoundedQueue::Outcome outcome);

  /// Takes ownership of a site that sends no more records. Thread-safe. GIL not needed.
  void Retire(std::unique_ptr<TapSite> site);
  /// Takes ownership of a site that sends no more records and has none upstream. Thread-safe. GIL not needed.
  void RetireFromQueues(std::unique_ptr<TapSite> site);

  /// Sets the source through which records reach the queues; null for none. `upstream` must outlive this object, or be
  /// replaced by null first. Thread-safe.
  void SetUpstream(Upstream* upstream) { upstream_.store(upstream, std::memory_order_release); }

  /// Blocks until everything pushed before the call is delivered, or until `deadline`. Returns a description of what is
  /// outstanding; empty if nothing is. Returns empty at once after Shutdown and in a forked child. Throws
  /// std::system_error if a delivery thread cannot be started. Must not be called on a delivery thread, nor with the
  /// GIL held. Thread-safe.
  std::vector<std::string> Drain(std::chrono::steady_clock::time_point deadline);

  /// Blocks until all upstream records of `device_ordinal` are in their queues, so that later records come after them.
  /// `caller` and `run_id` are for the watchdog. Returns at once on a delivery thread, after Shutdown and in a forked
  /// child. Must not be called with the GIL held. Thread-safe.
  void AwaitUpstream(const Callback& caller, int32_t device_ordinal, int64_t run_id);

  /// Blocks until everything that was pushed for `device_ordinal` before the call is delivered; `caller` and `run_id`
  /// are for the watchdog. Returns at once on a delivery thread (which would wait for itself), after Shutdown and in a
  /// forked child. Throws std::system_error if a delivery thread cannot be started. Must not be called with the GIL
  /// held. Thread-safe.
  void DrainDevice(const Callback& caller, int32_t device_ordinal, int64_t run_id);

  /// Ends the threads until there is a record to deliver. Blocks until they have ended. Must not be called on a
  /// delivery thread, nor with the GIL held. Thread-safe.
  void Park();

  /// Adds a failure that did not happen on a delivery thread; the next barrier raises it. Thread-safe.
  void AddError(const Callback& callback, int32_t device_ordinal, const Status& status);
  /// Returns the failures since the last call. Thread-safe.
  DeliveryErrorReport TakeErrors();

  /// Drains until `deadline`, then ends the threads and closes the queues, which releases blocked producers. Returns
  /// the number of records that were not delivered. Must not be called with the GIL held. Thread-safe.
  uint64_t Shutdown(std::chrono::steady_clock::time_point deadline);

  std::vector<NamedQueueStats> QueueStatistics() const;
  /// Returns one line for each queue, for reports. Thread-safe.
  std::string DescribeQueues() const;
  /// Returns the number of running delivery threads. Thread-safe.
  int RunningThreads() const;

 private:
  struct Channel {
    BoundedQueue* queue;
    DeliveryThread* thread;
    const char* name;  // the worker's name
    int32_t device_ordinal;
  };
  static constexpr int kMaxPythonThreads = 64;
  static constexpr size_t kDirectSlots = 64;
  using DirectSlots = std::array<std::atomic<Channel*>, kDirectSlots>;

  std::atomic<Channel*>& DirectSlot(Worker worker, int32_t device_ordinal) {
    return direct_[static_cast<size_t>(worker)][static_cast<uint32_t>(device_ordinal) % kDirectSlots];
  }
  const std::atomic<Channel*>& DirectSlot(Worker worker, int32_t device_ordinal) const {
    return direct_[static_cast<size_t>(worker)][static_cast<uint32_t>(device_ordinal) % kDirectSlots];
  }
  Channel* ChannelFor(Worker worker, int32_t device_ordinal);
  Channel* AddChannel(Worker worker, int32_t device_ordinal);
  Channel* ExistingChannel(Worker worker, int32_t device_ordinal) const;
  std::vector<std::pair<NamedQueueStats, Channel*>> Channels() const;
  static BoundedQueue::Outcome WaitForRoom(Channel& channel, const Callback& callback, const RecordSize& size,
                                           const Sending& sending, RecordHeader** header);
  static BoundedQueue::Outcome TakeRoom(Channel& channel, const TapSite& site, const Sending& sending,
                                        RecordHeader** header);
  bool CountDrop(TapSite& site, BoundedQueue::Outcome outcome, uint32_t count = 1);
  Status NotTaken(TapSite& site, const Sending& sending, BoundedQueue::Outcome outcome);
  Status EnqueueRows(TapSite& site, const Sending& sending);
  Status EnqueueHandOver(TapSite& site, const Sending& sending, AdmittedRows rows);
  std::vector<RowsOfTap> TakeHandOver(const TapSite& site, const Sending& sending);
  Status PushTo(Channel& channel, TapSite& site, const Sending& sending);

  Upstream* upstream() const { return upstream_.load(std::memory_order_acquire); }

  DeliveryErrors errors_;
  std::atomic<Upstream*> upstream_{nullptr};
  mutable ForkMutex mutex_;
  DeliveryOptions options_ CALLOUT_GUARDED_BY(mutex_);
  std::array<BatchGate, kWorkerCount> gates_ CALLOUT_GUARDED_BY(mutex_);
  std::array<std::vector<std::unique_ptr<DeliveryThread>>, kWorkerCount> threads_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::pair<int, int32_t>, std::unique_ptr<Channel>> channels_ CALLOUT_GUARDED_BY(mutex_);
  // Channels found without a lock, by the low bits of the ordinal. The devices of one process have neighbouring
  // ordinals; those of a second process begin at 2048. A slot is set once under the mutex, with release; readers use
  // acquire.
  std::array<DirectSlots, kWorkerCount> direct_{};
  std::atomic<bool> closed_{false};
  // The rows of hand-overs whose last tap has not run. A failed program leaves its own behind.
  struct HandOver {
    int64_t run_id;
    int64_t number;
    int32_t device_ordinal;
    std::vector<RowsOfTap> taps;
  };
  static constexpr size_t kMostHandOvers = 256;
  mutable ForkMutex hand_overs_mutex_;
  std::deque<HandOver> hand_overs_ CALLOUT_GUARDED_BY(hand_overs_mutex_);
  std::atomic<uint64_t> refused_{0};  ///< Records pushed after the queues were closed.
};

}  // namespace callout::internal
