// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous way out: queues by worker and device, the threads that drain them, the barrier, and the end.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
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
#include "core/delivery/tap_site.h"

namespace callout::internal {

/// Records of one worker and device that are under way.
struct UpstreamStats {
  Worker worker = Worker::kNative;
  int32_t device_ordinal = -1;
  uint64_t records = 0;         ///< Taken, and not yet in their queue.
  uint64_t bytes = 0;           ///< Host memory that they occupy.
  uint64_t capacity_bytes = 0;  ///< How much they may occupy.
  uint64_t blocked = 0;         ///< Times that a program waited for room, since the start.
};

/// All functions are thread-safe; the GIL is not needed. Those that wait must not be called with the GIL held.
class Upstream {
 public:
  static constexpr int32_t kAllDevices = -1;

  virtual ~Upstream() = default;

  /// Blocks until the records that were taken before the call are in their queues or are known to be lost, or until
  /// `deadline`. Empty, or a description of what is outstanding.
  virtual std::vector<std::string> HandOver(int32_t device_ordinal, std::chrono::steady_clock::time_point deadline) = 0;
  /// Failures that came up too late for their program, and that no later program was told: to the next barrier.
  virtual void ReportFailures() = 0;
  /// Takes ownership of the site, and gives it to Delivery::RetireFromQueues behind its last record; or leaves it, if
  /// there is none.
  virtual void Retire(std::unique_ptr<TapSite>& site) = 0;
  /// Ends what runs and gives back what is not needed, until there is a record again.
  virtual void Park() = 0;
  /// From now on nothing is taken, and programs that wait for room go on. Returns the number of records that will not
  /// be delivered.
  virtual uint64_t Close() = 0;

  virtual std::vector<UpstreamStats> Statistics() const = 0;
  /// Threads that run.
  virtual int RunningThreads() const = 0;
};

struct DeliveryOptions {
  /// Capacity of each queue (one a device and worker), bytes. At least kMinQueueBytes; what happens at the limit is the
  /// tap's OverflowPolicy.
  uint64_t queue_bytes = 256'000'000;
  /// Threads that run Python taps. Devices are dealt out to them; one Python thread runs at a time whatever their
  /// number.
  int python_threads = 1;
};
inline constexpr uint64_t kMinQueueBytes = 16'000'000;

struct NamedQueueStats {
  Worker worker;
  int32_t device_ordinal;
  QueueStats stats;
  UpstreamStats upstream = {};  ///< Of the same worker and device.
};

/// What becomes of a record for which its queue has no room, and whose policy is to wait.
enum class Patience {
  kWaits,
  kComesAgain,  ///< Unavailable; its sender tries again. After Shutdown, too, under each policy.
};

/// What a tap sends. Borrowed: valid until Push returns.
struct Sending {
  std::span<const callout_buffer> buffers;
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
  std::optional<int64_t> step = {};  ///< Of sites that have one.
  Patience patience = Patience::kWaits;
  /// For records that come from upstream, how often their place was reached without sending one before their program
  /// sent them. Nothing: that is what the site's throttle has counted by now.
  std::optional<uint32_t> unsent = {};
  bool* queued = nullptr;  ///< Set to true when a record of it lies in the queue. Null: nobody asks.
};

/// "python" or "native".
CALLOUT_EXPORT const char* WorkerName(Worker worker);

/// What a tap gets in a forked child.
CALLOUT_EXPORT Status ForkedChildError();

class CALLOUT_EXPORT Delivery {
 public:
  /// The process's delivery; never destroyed. Thread-safe.
  static Delivery& Get();

  /// The bytes of a record in the queue's memory, and those that count against its capacity.
  struct RecordSize {
    size_t bytes;
    uint64_t charged;
  };

  Delivery();
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  /// InvalidArgument, and nothing changed, if an option is out of range. `queue_bytes` applies to all queues at once,
  /// `python_threads` to devices seen for the first time. Thread-safe.
  Status Configure(const DeliveryOptions& options);
  /// Thread-safe.
  uint64_t queue_bytes() const;
  /// To be called before the first tap of the worker.
  void SetGate(Worker worker, BatchGate gate);

  /// True if records may come through something before they come to their queues. Thread-safe.
  bool has_upstream() const { return upstream() != nullptr; }

  /// Copies the buffers into the queue of the site's worker and the device, if the site's senders, throttle and
  /// inspector admit it. Blocks as the site's policy says, never on a delivery thread. Errors: ResourceExhausted
  /// (policy kFail), the inspector's, FailedPrecondition in a forked child. Thread-safe. GIL not needed, and must not
  /// be held where this may block.
  Status Push(TapSite& site, const Sending& sending);

  /// True if Push of such a value, from whatever device and run, would do no more than count it; it is counted then.
  /// Thread-safe. GIL not needed.
  static bool Passes(TapSite& site, std::span<const callout_buffer> value);

  /// The parts of Push, for records whose values are not there yet: they are admitted when they are to be sent, where
  /// what that needs is known then, and looked at and queued when their values have arrived. Thread-safe. GIL not
  /// needed. First, the site's senders and throttle; a record that is not admitted is counted.
  static bool Admit(TapSite& site, int32_t device_ordinal, std::optional<int64_t> step,
                    Throttle::Place place = Throttle::Place::kInProgram);
  /// What follows in one: the inspector and the queue. As Push.
  Status PushAdmitted(TapSite& site, const Sending& sending);
  /// Second, the inspector.
  static Result<Inspector::Send> Inspect(TapSite& site, const Sending& sending);
  /// Third, the queue.
  Status Enqueue(TapSite& site, const Sending& sending);
  /// In the place of a record that its program could not send, it is counted. `outcome` is not kTaken. True if the
  /// site's policy wants that to be an error.
  bool Refuse(TapSite& site, int32_t device_ordinal, BoundedQueue::Outcome outcome);

  /// Takes ownership of a site of which no more records will come. Thread-safe. GIL not needed.
  void Retire(std::unique_ptr<TapSite> site);
  /// The same for a site of which nothing is upstream any more.
  void RetireFromQueues(std::unique_ptr<TapSite> site);

  /// What this delivery's records come through; null: nothing. It is told that it is in the way from then on, and
  /// outlives this or is replaced by null first. Thread-safe.
  void SetUpstream(Upstream* upstream) { upstream_.store(upstream, std::memory_order_release); }

  /// Blocks until everything pushed before the call is delivered, or until `deadline`. Empty if all was delivered, else
  /// a description of what is outstanding. After Shutdown and in a forked child: empty, at once. Throws
  /// std::system_error if the thread that delivers cannot be started. Must not be called on a delivery thread, nor with
  /// the GIL held. Thread-safe.
  std::vector<std::string> Drain(std::chrono::steady_clock::time_point deadline);

  /// Blocks until the records of `device_ordinal` that are under way are in their queues: what is pushed then comes
  /// behind them. Otherwise as DrainDevice.
  void AwaitUpstream(const Callback& caller, int32_t device_ordinal, int64_t run_id);

  /// Blocks until everything that was pushed for `device_ordinal` before the call is delivered; `caller` and `run_id`
  /// are for the watchdog. Returns at once on a delivery thread (which would wait for itself), after Shutdown and in a
  /// forked child. Throws as Drain does. Must not be called with the GIL held. Thread-safe.
  void DrainDevice(const Callback& caller, int32_t device_ordinal, int64_t run_id);

  /// Ends the threads until there is something to deliver, and waits until they have ended. Must not be called on a
  /// delivery thread, nor with the GIL held. Thread-safe.
  void Park();

  /// Lets the next barrier raise a failure that did not happen on a delivery thread. Thread-safe.
  void AddError(const Callback& callback, int32_t device_ordinal, const Status& status);
  /// What failed since the last call. Thread-safe.
  DeliveryErrorReport TakeErrors();

  /// Drains until `deadline`, then ends the threads and closes the queues, which releases blocked producers. Returns
  /// the number of records that were not delivered. Must not be called with the GIL held. Thread-safe.
  uint64_t Shutdown(std::chrono::steady_clock::time_point deadline);

  std::vector<NamedQueueStats> QueueStatistics() const;
  /// One line a queue, for reports. Thread-safe.
  std::string DescribeQueues() const;
  /// Delivery threads that run. Thread-safe.
  int RunningThreads() const;

 private:
  struct Channel {
    BoundedQueue* queue;
    DeliveryThread* thread;
    const char* name;  // the worker's
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
  bool CountDrop(TapSite& site, BoundedQueue::Outcome outcome);
  Status NotTaken(TapSite& site, const Sending& sending, BoundedQueue::Outcome outcome);
  Status PushTo(Channel& channel, TapSite& site, const Sending& sending);
  /// The same, while a profile is recorded.
  Status PushRecorded(Channel& channel, TapSite& site, const Sending& sending);

  Upstream* upstream() const { return upstream_.load(std::memory_order_acquire); }

  DeliveryErrors errors_;
  std::atomic<Upstream*> upstream_{nullptr};
  mutable ForkMutex mutex_;
  DeliveryOptions options_ CALLOUT_GUARDED_BY(mutex_);
  std::array<BatchGate, kWorkerCount> gates_ CALLOUT_GUARDED_BY(mutex_);
  std::array<std::vector<std::unique_ptr<DeliveryThread>>, kWorkerCount> threads_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::pair<int, int32_t>, std::unique_ptr<Channel>> channels_ CALLOUT_GUARDED_BY(mutex_);
  // Channels without a lock, by the low bits of the ordinal: a process's devices are neighbours, but the ordinals of a
  // second process begin at 2048. Set once under the mutex, with release; read with acquire.
  std::array<DirectSlots, kWorkerCount> direct_{};
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> refused_{0};  ///< Records that came after the queues were closed.
};

}  // namespace callout::internal
