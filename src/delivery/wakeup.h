// SPDX-License-Identifier: Apache-2.0
//
// How a delivery thread rests. Waking a sleeping thread costs the waker microseconds, which a tap must not pay each
// time. So the thread first naps: for a fraction of a millisecond it looks again by itself, and producers do not wake
// it. Only after some idle naps does it sleep, and then the first producer wakes it (model: tests/memory_model).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>

#include "base/thread_annotations.h"

namespace callout::internal {

class Wakeup {
 public:
  /// Wakes the thread if it sleeps. To be called after a seq_cst write of the work, which pairs with the seq_cst read
  /// of `has_work` in Sleep: either the producer sees the sleeper or the sleeper sees the work. Thread-safe.
  void Notify() {
    if (sleeping_.load(std::memory_order_seq_cst)) [[unlikely]]
      Interrupt();
  }

  /// Ends a nap or sleep at once. Thread-safe.
  void Interrupt() {
    MutexLock lock(mutex_);
    interrupted_ = true;
    changed_.notify_one();
  }

  /// Blocks until `duration` is over or Interrupt. One thread.
  void Nap(std::chrono::microseconds duration) {
    MutexLock lock(mutex_);
    if (!interrupted_) changed_.wait_for(mutex_, duration);
    interrupted_ = false;
  }

  /// Blocks until Notify or Interrupt, unless `has_work()`. One thread.
  template <typename HasWork>
  void Sleep(HasWork&& has_work) {
    MutexLock lock(mutex_);
    sleeping_.store(true, std::memory_order_seq_cst);
    while (!interrupted_ && !has_work()) changed_.wait(mutex_);
    sleeping_.store(false, std::memory_order_relaxed);  // publishes nothing; who still sees `true` interrupts in vain
    interrupted_ = false;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool interrupted_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::atomic<bool> sleeping_{false};
};

}  // namespace callout::internal
