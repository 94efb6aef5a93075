// SPDX-License-Identifier: Apache-2.0
//
// A thread that delivers records, and the errors of the callbacks that it calls. A failing tap never fails the program:
// errors are counted, the first error of each callback is logged, and the next barrier gets the number of errors, the
// first few and the last one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/probe.h"
#include "core/delivery/bounded_queue.h"
#include "core/handles/handle.h"

namespace callout::internal {

struct DeliveryErrorReport {
  uint64_t count = 0;
  std::vector<Status> first;  ///< At most 8, in order.
  Status last;
};

class DeliveryErrors {
 public:
  /// Adds an error. Logs it if it is the callback's first. Thread-safe.
  void Add(const Callback& callback, int32_t device_ordinal, const Status& status);
  /// Returns the errors since the last call. Thread-safe.
  DeliveryErrorReport Take();

 private:
  Mutex mutex_;
  DeliveryErrorReport report_ CALLOUT_GUARDED_BY(mutex_);
};

// One thread that takes records out of its queues and passes them to their callbacks. tests/memory_model checks how the
// thread starts, rests, parks and stops, under every order that weak memory allows.

/// Hooks around each batch. The Python worker's hooks take and release the GIL.
struct BatchGate {
  /// Returns false if the worker can deliver no more (the interpreter is going away). Null: always true.
  bool (*enter)() = nullptr;
  void (*leave)() = nullptr;
  /// Called when the thread ends, outside of a batch. May be null.
  void (*end)() = nullptr;
};

class CALLOUT_EXPORT DeliveryThread {
 public:
  /// Prepares a thread, which Start starts. `errors` outlives the thread.
  DeliveryThread(std::string name, BatchGate gate, DeliveryErrors& errors);
  /// Blocks until the thread has ended (see Stop).
  ~DeliveryThread();

  /// Adds a queue, which this thread drains as long as the object lives. Thread-safe.
  BoundedQueue* AddQueue(uint64_t capacity_bytes, QueueName name = {});

  /// Wakes the thread, so that it delivers at once. Thread-safe.
  void Hurry() { wakeup_.Interrupt(); }

  /// Starts the thread if it does not run. Throws std::system_error if no thread can be created; the next caller that
  /// commits a record or waits for one then tries again. Thread-safe.
  void Start();
  /// Asks the thread to end after its current step, and Blocks until it has ended or until `deadline`. Returns false if
  /// the thread was still inside a callback then. Must not be called with the GIL held. Thread-safe.
  bool Stop(std::chrono::steady_clock::time_point deadline);
  /// Ends the thread until there is a record to deliver. After Stop, only Start starts the thread. Blocks until the
  /// thread has ended. Must not be called on a delivery thread, nor with the GIL held. Thread-safe.
  void Park();
  /// Starts the thread if it is parked. Must be called after each commit of a record. Throws as Start does.
  /// Thread-safe.
  void StartIfParked() {
    if (parked_.load(std::memory_order_seq_cst)) [[unlikely]]
      EndParking();
  }
  /// Starts the thread if it is parked. If that fails, a later call tries again. For callers that cannot report a
  /// failure. Thread-safe.
  void StartIfParkedOrLater() noexcept;

  /// Blocks until `queue` has delivered the record with `ticket`, or until `deadline`; returns false in that case.
  /// Throws as Start does. Thread-safe.
  bool WaitFor(const BoundedQueue& queue, uint64_t ticket, std::chrono::steady_clock::time_point deadline);

  /// Returns true from Start until the thread has ended. Thread-safe.
  bool running() const;

  /// Returns true on any delivery thread.
  static bool IsCurrent();

 private:
  void StartUnlessRunning() CALLOUT_REQUIRES(mutex_);
  void EndParking();
  bool End(std::chrono::steady_clock::time_point deadline, bool parked);
  void Run();
  bool DrainOnce();
  void DrainQueue(BoundedQueue& queue);
  void Deliver(RecordHeader& header);
  void DeliverRows(const TapSite& site, const Record& whole, uint32_t rows);
  void DeliverMerged(const Record& whole);
  void DeliverOne(const TapSite& site, const Record& record);
  void DeliverTo(const std::shared_ptr<Callback>& receiver, const Record& record);
  void DeliverBehindHandle(const TapSite& site, const Record& record);
  Status FindReceiver(const TapSite& site, const Record& record);
  void Flush();
  bool HasWork() const;
  std::vector<BoundedQueue*> Queues() const;

  const std::string name_;
  const BatchGate gate_;
  DeliveryErrors& errors_;
  Wakeup wakeup_;
  mutable ForkMutex mutex_;
  std::vector<std::unique_ptr<BoundedQueue>> queues_ CALLOUT_GUARDED_BY(mutex_);
  std::atomic<size_t> num_queues_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_ CALLOUT_GUARDED_BY(mutex_);
  bool running_ CALLOUT_GUARDED_BY(mutex_) = false;
  bool stopped_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< True from Stop until Start.
  int stopping_ CALLOUT_GUARDED_BY(mutex_) = 0;      ///< Number of calls of End that wait.
  std::atomic<bool> parked_{false};
  std::atomic<int> waiters_{0};
  std::condition_variable_any progress_;

  // Members that only the thread itself uses.
  uint64_t batch_ticks_ = 0;  ///< Limit on the length of a batch.
  IdleBackoff backoff_;
  std::vector<BoundedQueue*> own_queues_;
  std::vector<std::shared_ptr<Callback>> to_flush_;
  Probe::Timing timing_ = Probe::Timing::kEach;  ///< Of deliveries.
  // The receiver of the last record with a handle, kept until the end of the batch.
  const Router* last_router_ = nullptr;
  Handle last_handle_;
  std::shared_ptr<Callback> last_receiver_;
};

}  // namespace callout::internal
