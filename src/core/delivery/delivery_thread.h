// SPDX-License-Identifier: Apache-2.0
//
// A thread that delivers records, and the errors of the callbacks that it calls. A failing tap never fails the
// program: its errors are counted, the first of each callback is logged, and the next barrier takes the last one, the
// number, and the first few.
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
#include "core/delivery/bounded_queue.h"

namespace callout::internal {

struct DeliveryErrorReport {
  uint64_t count = 0;
  std::vector<std::string> first;  ///< At most 8, in order.
  std::string last;
  StatusCode last_code = StatusCode::kOk;
};

class DeliveryErrors {
 public:
  /// Logs the callback's first error. Thread-safe.
  void Add(const Callback& callback, int32_t device_ordinal, const Status& status);
  /// Returns what came since the last call. Thread-safe.
  DeliveryErrorReport Take();

 private:
  Mutex mutex_;
  DeliveryErrorReport report_ CALLOUT_GUARDED_BY(mutex_);
};

// One thread that takes records out of its queues and hands them to their callbacks. tests/memory_model checks how it
// starts, rests, parks and stops, under every order that weak memory allows.

/// Around each batch. The Python worker's takes and gives back the GIL.
struct BatchGate {
  /// False if the worker can deliver no more (the interpreter is going away). Null: always open.
  bool (*enter)() = nullptr;
  void (*leave)() = nullptr;
  /// Called when the thread ends, outside of a batch. May be null.
  void (*end)() = nullptr;
};

class CALLOUT_EXPORT DeliveryThread {
 public:
  /// `errors` outlives the thread.
  DeliveryThread(std::string name, BatchGate gate, DeliveryErrors& errors);
  /// Blocks until the thread has ended (see Stop).
  ~DeliveryThread();

  /// A queue that this thread drains, for as long as the thread object lives. Thread-safe.
  BoundedQueue* AddQueue(uint64_t capacity_bytes, QueueName name = {});

  /// Delivers now what is queued. Thread-safe.
  void Hurry() { wakeup_.Interrupt(); }

  /// Starts the thread if it does not run. If there is none to be had, throws std::system_error, and whoever commits a
  /// record or waits for one tries again. Thread-safe.
  void Start();
  /// Asks the thread to end after what it is doing now, and waits for it until `deadline`. False if it was still inside
  /// a callback then. Must not be called with the GIL held. Thread-safe.
  bool Stop(std::chrono::steady_clock::time_point deadline);
  /// Stops the thread until there is something to deliver; after Stop, nothing but Start starts it. Must not be called
  /// on a delivery thread, nor with the GIL held. Thread-safe.
  void Park();
  /// To be called when a record is committed. Throws as Start does. Thread-safe.
  void StartIfParked() {
    if (parked_.load(std::memory_order_seq_cst)) [[unlikely]]
      EndParking();
  }
  /// The same where nobody could be told of a failure. Thread-safe.
  void StartIfParkedOrLater() noexcept;

  /// Blocks until `queue` has delivered the record with `ticket`, or until `deadline`. False on the latter. Throws as
  /// Start does.
  bool WaitFor(const BoundedQueue& queue, uint64_t ticket, std::chrono::steady_clock::time_point deadline);

  /// True from Start until the thread has ended. Thread-safe.
  bool running() const;

  /// True on any delivery thread.
  static bool IsCurrent();

 private:
  void StartUnlessRunning() CALLOUT_REQUIRES(mutex_);
  void EndParking();
  bool End(std::chrono::steady_clock::time_point deadline, bool parked);
  void Run();
  bool DrainOnce();
  void DrainQueue(BoundedQueue& queue);
  void Deliver(RecordHeader& header);
  void Flush();
  void AddError(const Callback& callback, int32_t device_ordinal, const Status& status);
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
  bool stopped_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< Since Stop until Start.
  int stopping_ CALLOUT_GUARDED_BY(mutex_) = 0;      ///< Calls of End that wait.
  std::atomic<bool> parked_{false};
  std::atomic<int> waiters_{0};
  std::condition_variable_any progress_;

  // The thread's own.
  uint64_t batch_ticks_ = 0;  ///< How long a batch may take.
  Naps naps_;
  std::vector<BoundedQueue*> own_queues_;
  std::vector<std::shared_ptr<Callback>> to_flush_;
};

}  // namespace callout::internal
