// SPDX-License-Identifier: Apache-2.0
//
// How a delivery thread rests. Waking a sleeping thread costs the waker microseconds, which a tap must not pay each
// time. So the thread first naps: for a fraction of a millisecond it looks again by itself, and producers do not wake
// it unless the queue fills. Only after some idle naps does it sleep, and then the first producer wakes it (model:
// tests/memory_model). `Naps` says how long it naps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

#include "core/base/thread_annotations.h"

namespace callout::internal {

/// Not thread-safe: only the delivery thread uses its Naps.
class Naps {
 public:
  using Duration = std::chrono::microseconds;
  static constexpr Duration kShortest{100};
  static constexpr Duration kIdle{200};  ///< After one that found nothing.
  static constexpr Duration kLongest{800};
  static constexpr uint64_t kManyBytes = 2 << 20;
  static constexpr int kIdleBeforeSleep = 3;

  /// A record was delivered.
  void Count(uint64_t bytes) {
    ++records_;
    bytes_ += bytes;
  }

  /// How long to nap, where there is nothing to deliver; zero: sleep.
  Duration Next() {
    idle_ = records_ > 0 ? 0 : idle_ + 1;
    if (idle_ == kIdleBeforeSleep) {
      *this = {};
      return Duration::zero();
    }
    if (bytes_ > kManyBytes) {
      length_ = std::max(length_ / 2, kShortest);
    } else if (records_ <= 1) {
      length_ = records_ == 0 ? kIdle : kShortest;
    } else if (bytes_ <= kManyBytes / 2) {
      length_ = std::min(2 * length_, kLongest);
    }
    records_ = bytes_ = 0;
    return length_;
  }

 private:
  Duration length_ = kShortest;
  int idle_ = 0;  // naps that found nothing
  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
};

enum class Rest : uint32_t { kAwake, kNapping, kSleeping };

class Wakeup {
 public:
  /// Wakes the thread if it sleeps. To be called after a seq_cst write of the work, which pairs with the seq_cst read
  /// of `has_work` in Sleep: either the producer sees the sleeper or the sleeper sees the work. Thread-safe.
  void Notify() {
    if (rest_.load(std::memory_order_seq_cst) == Rest::kSleeping) [[unlikely]]
      Interrupt();
  }

  /// Ends a nap that has begun; who misses one waits for its end. Thread-safe.
  void EndNap() {
    if (rest() == Rest::kNapping) Interrupt();  // nothing is read because of it
  }

  /// What the thread did a moment ago. Thread-safe.
  Rest rest() const { return rest_.load(std::memory_order_relaxed); }

  /// Ends a nap or sleep at once. Thread-safe.
  void Interrupt() {
    MutexLock lock(mutex_);
    interrupted_ = true;
    changed_.notify_one();
  }

  /// Blocks until `duration` is over or Interrupt. One thread.
  void Nap(std::chrono::microseconds duration) {
    MutexLock lock(mutex_);
    rest_.store(Rest::kNapping, std::memory_order_relaxed);  // who does not see it ends no nap
    if (!interrupted_) changed_.wait_for(mutex_, duration);
    rest_.store(Rest::kAwake, std::memory_order_relaxed);  // who still sees a nap interrupts in vain
    interrupted_ = false;
  }

  /// Blocks until Notify or Interrupt, unless `has_work()`. One thread.
  template <typename HasWork>
  void Sleep(HasWork&& has_work) {
    MutexLock lock(mutex_);
    rest_.store(Rest::kSleeping, std::memory_order_seq_cst);
    while (!interrupted_ && !has_work()) changed_.wait(mutex_);
    rest_.store(Rest::kAwake, std::memory_order_relaxed);  // publishes nothing; who still sees sleep interrupts in vain
    interrupted_ = false;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool interrupted_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::atomic<Rest> rest_{Rest::kAwake};
};

}  // namespace callout::internal
