// SPDX-License-Identifier: Apache-2.0
//
// The queue between the programs of one device and one delivery thread: how records lie in it (RecordHeader), how the
// thread rests and is woken (Naps, Wakeup), and the queue itself (BoundedQueue).
//
// A record in a queue:
//
//   RecordHeader | callout_buffer x n | void* block x n | int64 dims | pad | data of small buffers, 16-byte aligned
//
// Large buffers lie in blocks of their own, which the receiver may keep without another copy.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>

#include "callout/abi.h"
#include "core/base/fork_mutex.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

struct TapSite;

enum class RecordKind : uint32_t {
  kValue,
  kLost,        ///< No buffers: there was no memory for them. Its producer was told.
  kRetireSite,  ///< No buffers; the site is destroyed when this comes out of its last queue.
};

/// What the consumer finds where a record may begin.
enum class RecordState : uint32_t {
  kOpen,       ///< No record, or one that is not written yet.
  kCommitted,  ///< Everything else of the record is written.
  kEnd,        ///< The next record is the first of the next chunk.
};

struct alignas(16) RecordHeader {
  std::atomic<RecordState> state{RecordState::kOpen};
  RecordKind kind;
  uint32_t bytes;  ///< In the queue's memory, this header included.
  uint32_t num_buffers;
  uint64_t charged_bytes;  ///< Counted against the queue's capacity.
  uint64_t ticket;         ///< Its place in the queue.
  uint64_t sequence;       ///< Counts values only.
  TapSite* site;
  int64_t run_id;
  uint64_t ticks;  ///< When the record was taken, see base/ticks.h.
  int32_t device_ordinal;
  uint32_t unsent;  ///< See Record.
  int64_t step;     ///< If the site's records have one.

  callout_buffer* buffers() { return reinterpret_cast<callout_buffer*>(this + 1); }
  void** blocks() { return reinterpret_cast<void**>(buffers() + num_buffers); }
  int64_t* dims() { return reinterpret_cast<int64_t*>(blocks() + num_buffers); }
};

inline constexpr size_t AlignUp(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// How a delivery thread rests. Waking a sleeping thread costs the waker microseconds, which a tap must not pay each
// time. So the thread first naps: for a fraction of a millisecond it looks again by itself, and producers do not wake
// it unless the queue fills. Only after some idle naps does it sleep, and then the first producer wakes it (model:
// tests/memory_model). `Naps` says how long it naps.

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

// The queue between the programs of one device and one delivery thread. Many producers, one consumer; bounded in bytes.
//
// Records are bump-allocated in a chain of 64 KB chunks: the producers' lock covers only "take room and a number",
// about 20 ns; the copy happens outside it. The consumer takes no lock: it reads in place, in the order of the numbers.
// Behind the last record there is always an open header, the next one's, so that the states of headers are all that
// the consumer looks at: it stops at the first that is open. A lock-free ring was not chosen: it would hold 256 MB from
// the start, and the lock is not what costs (benchmarks/cpp compares with a mutex around a deque). tests/memory_model
// checks this file under every order that weak memory allows.
//
//   chunk ──next──> chunk ──next──> chunk
//    [rec][rec][end] [rec][rec][end] [rec][rec.[open
//     ^ consumer                                ^ producers take room here

struct QueueStats {
  uint64_t records = 0;  ///< Values taken since the start.
  uint64_t delivered = 0;
  uint64_t pending_bytes = 0;  ///< Charged, not yet delivered.
  uint64_t high_water_bytes = 0;
  uint64_t blocked = 0;  ///< Times that a producer had to wait.
  uint64_t capacity_bytes = 0;
};

/// Whose records a queue takes, for those who look at queues.
struct QueueName {
  uint8_t worker = 0;  ///< As the enum Worker.
  int32_t device_ordinal = -1;
};

class BoundedQueue {
 public:
  enum class Outcome { kTaken, kFull, kClosed, kNoMemory };

  /// `wakeup` is the consumer's and outlives the queue. Throws std::bad_alloc.
  BoundedQueue(uint64_t capacity_bytes, Wakeup& wakeup, QueueName name = {});
  ~BoundedQueue();
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  enum class WhenFull { kGiveUp, kWait, kExceed };

  /// Takes room for a record of `bytes` in the queue's memory that counts `charged_bytes` against the capacity. A
  /// record larger than the capacity is taken when the queue is empty. kWait: Blocks until there is room or the queue
  /// is closed. The caller fills the record and calls Commit; its size, kind and numbers are set. Thread-safe. GIL not
  /// needed.
  Outcome Reserve(RecordKind kind, size_t bytes, uint64_t charged_bytes, WhenFull when_full, RecordHeader** record);

  /// Publishes a record. Thread-safe.
  void Commit(RecordHeader* record);

  /// The next committed record in order, or null. Borrowed: valid until Pop. One consumer.
  RecordHeader* Peek();

  /// Steps over the record that Peek returned. One consumer.
  void Pop(RecordHeader* record);

  /// Pops all that is committed, frees its blocks and returns how many values were in it. For a consumer that gives up.
  /// One consumer.
  uint64_t CountValues();

  /// Gives the room of what was popped back and releases producers that wait for it. One consumer.
  void PublishRoom();

  /// Makes what was popped count as delivered, and gives its room back. One consumer.
  void PublishProgress();

  /// True if something was popped that does not count as delivered. One consumer.
  bool HasUnpublished() const {
    return popped_ticket_ != delivered_.load(std::memory_order_relaxed);  // what this thread stored
  }

  /// From now on Reserve answers kClosed; waiting producers are released. Returns how many waited. Thread-safe.
  int Close();
  /// Undoes Close. Thread-safe.
  void Reopen();

  /// Ticket of the last record taken; 0 if none. Thread-safe.
  uint64_t taken() const { return taken_.load(std::memory_order_acquire); }
  /// Ticket of the last record delivered. Thread-safe.
  uint64_t delivered() const { return delivered_.load(std::memory_order_seq_cst); }
  /// True if something is taken that is not delivered. Of a record that is taken later, the producer sees what the
  /// caller wrote before it asked. Thread-safe.
  bool HasUndelivered() const;
  /// True if there is something to Peek at, but for a moment where the producers went on to another chunk. One
  /// consumer.
  bool HasWork() const;

  /// Applies to records taken from now on. Thread-safe.
  void SetCapacity(uint64_t bytes);

  QueueStats Stats() const;
  const QueueName& name() const { return name_; }

 private:
  struct Chunk;

  bool HasRoom(uint64_t charged_bytes) CALLOUT_REQUIRES(mutex_);
  bool LookForRoom(uint64_t charged_bytes) CALLOUT_REQUIRES(mutex_);
  bool WaitForRoom(uint64_t charged_bytes) CALLOUT_REQUIRES(mutex_);
  static Chunk* NewChunk(size_t record_bytes);

  Wakeup& wakeup_;
  const QueueName name_;

  // Producers' side. What each record changes is on one cache line, with the lock.
  alignas(64) mutable ForkMutex mutex_;
  size_t used_ CALLOUT_GUARDED_BY(mutex_) = 0;  // of the tail
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> charged_{0};
  // What each record reads, and few change.
  alignas(64) Chunk* tail_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t known_room_ CALLOUT_GUARDED_BY(mutex_) = 0;  // `charged_` may come so far without another look
  uint64_t capacity_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t others_ CALLOUT_GUARDED_BY(mutex_) = 0;  // taken, and no values
  uint64_t blocked_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool closed_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::condition_variable_any room_;
  std::atomic<int> waiting_{0};

  // Consumer's side, on cache lines of its own. The producers look at `released_` only where what they knew of does not
  // do, the consumer at the producers' lines only when it gives room back.
  alignas(64) Chunk* head_;
  size_t head_offset_ = 0;
  uint64_t popped_ticket_ = 0;
  uint64_t popped_values_ = 0;
  uint64_t popped_charged_ = 0;
  std::atomic<uint64_t> high_water_{0};  // until room was last given back: only that lowers the level
  alignas(64) std::atomic<uint64_t> released_{0};
  std::atomic<uint64_t> delivered_{0};
  std::atomic<uint64_t> delivered_values_{0};
};

}  // namespace callout::internal
