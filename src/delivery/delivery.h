// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous way out: queues by lane and device, the threads that drain them, the barrier, and the end.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "callout/abi.h"
#include "callout/export.h"
#include "delivery/delivery_thread.h"
#include "delivery/tap_site.h"

namespace callout::internal {

struct DeliveryOptions {
  /// Capacity of each queue (one a device and lane), bytes. At least kMinQueueBytes; what happens at the limit is the
  /// tap's OverflowPolicy.
  uint64_t queue_bytes = 256'000'000;
  /// Threads that run Python taps. Devices are dealt out to them; one Python thread runs at a time whatever their
  /// number.
  int python_threads = 1;
};
inline constexpr uint64_t kMinQueueBytes = 16'000'000;

struct NamedQueueStats {
  Lane lane;
  int32_t device_ordinal;
  QueueStats stats;
};

class CALLOUT_EXPORT Delivery {
 public:
  /// The process's delivery; never destroyed. Thread-safe.
  static Delivery& Get();

  Delivery();
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  /// InvalidArgument, and nothing changed, if an option is out of range. `queue_bytes` applies to all queues at once,
  /// `python_threads` to devices seen for the first time. Thread-safe.
  Status Configure(const DeliveryOptions& options);
  /// To be called before the first tap of the lane.
  void SetGate(Lane lane, BatchGate gate);

  /// Copies `buffers` into the queue of the site's lane and `device_ordinal`, if the site's throttle admits it. Blocks
  /// as the site's policy says, never on a delivery thread. Errors: ResourceExhausted (policy kFail),
  /// FailedPrecondition in a forked child. Thread-safe. GIL not needed, and must not be held where the policy may
  /// block.
  Status Push(TapSite& site, const callout_buffer* buffers, uint32_t num_buffers, int32_t device_ordinal,
              int64_t run_id);

  /// Takes ownership of a site of which no more records will come. Thread-safe. GIL not needed.
  void Retire(std::unique_ptr<TapSite> site);

  /// Blocks until everything pushed before the call is delivered, or until `deadline`. Empty if all was delivered, else
  /// a description of what is outstanding. After Shutdown: empty, at once. Must not be called on a delivery thread, nor
  /// with the GIL held. Thread-safe.
  std::vector<std::string> Drain(std::chrono::steady_clock::time_point deadline);

  /// Blocks until everything that was pushed for `device_ordinal` before the call is delivered; `caller` and `run_id`
  /// are for the watchdog. Returns at once on a delivery thread (which would wait for itself) and after Shutdown. Must
  /// not be called with the GIL held. Thread-safe.
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
    const char* name;  // the lane's
    int32_t device_ordinal;
  };
  static constexpr int kMaxPythonThreads = 64;
  static constexpr size_t kDirectSlots = 64;
  using DirectSlots = std::array<std::atomic<Channel*>, kDirectSlots>;

  std::atomic<Channel*>& DirectSlot(Lane lane, int32_t device_ordinal) {
    return direct_[static_cast<size_t>(lane)][static_cast<uint32_t>(device_ordinal) % kDirectSlots];
  }
  const std::atomic<Channel*>& DirectSlot(Lane lane, int32_t device_ordinal) const {
    return direct_[static_cast<size_t>(lane)][static_cast<uint32_t>(device_ordinal) % kDirectSlots];
  }
  Channel* ChannelFor(Lane lane, int32_t device_ordinal);
  Channel* AddChannel(Lane lane, int32_t device_ordinal);
  Channel* ExistingChannel(Lane lane, int32_t device_ordinal) const;
  std::vector<std::pair<NamedQueueStats, Channel*>> Channels() const;
  Status OutcomeStatus(TapSite& site, BoundedQueue::Outcome outcome);
  Status PushTo(Channel& channel, TapSite& site, const callout_buffer* buffers, uint32_t num_buffers,
                int32_t device_ordinal, int64_t run_id);

  DeliveryErrors errors_;
  mutable Mutex mutex_;
  DeliveryOptions options_ CALLOUT_GUARDED_BY(mutex_);
  std::array<BatchGate, kLaneCount> gates_ CALLOUT_GUARDED_BY(mutex_);
  std::array<std::vector<std::unique_ptr<DeliveryThread>>, kLaneCount> threads_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::pair<int, int32_t>, std::unique_ptr<Channel>> channels_ CALLOUT_GUARDED_BY(mutex_);
  // Channels without a lock, by the low bits of the ordinal: a process's devices are neighbours, but the ordinals of a
  // second process begin at 2048. Set once under the mutex, with release; read with acquire.
  std::array<DirectSlots, kLaneCount> direct_{};
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> refused_{0};  ///< Records that came after the queues were closed.
};

}  // namespace callout::internal
