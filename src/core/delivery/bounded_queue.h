// SPDX-License-Identifier: Apache-2.0
//
// The queue between the programs of one device and one delivery thread: the layout of its records (RecordHeader), how
// the thread rests and is woken (IdleBackoff, Wakeup), and the queue itself (BoundedQueue).
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
  kRows,        ///< Several records of one site, see tap_rows.h.
  kLost,        ///< A record without buffers, because there was no memory for them. Its producer knows.
  kRetireSite,  ///< A marker without buffers; the site is destroyed when its last queue delivers the marker.
};

/// The state of the place where a record may begin, for the consumer.
enum class RecordState : uint32_t {
  kOpen,       ///< No record, or one whose producer is still writing.
  kCommitted,  ///< Everything else of the record is written.
  kEnd,        ///< The next record is the first of the next chunk.
};

struct alignas(16) RecordHeader {
  std::atomic<RecordState> state{RecordState::kOpen};
  RecordKind kind;
  uint32_t bytes;  ///< Size in the queue's memory, this header included.
  uint32_t num_buffers;
  uint64_t charged_bytes;  ///< Bytes that count against the queue's capacity.
  uint64_t ticket;         ///< Number of the record in the queue, from 1.
  uint64_t sequence;       ///< Number of the record, or of its first row, among those of kinds kValue and kRows.
  TapSite* site;
  int64_t run_id;
  uint64_t ticks;  ///< Time at which the tap ran, see base/ticks.h.
  int32_t device_ordinal;
  uint32_t skipped;  ///< See Record.
  int64_t step;      ///< Only if the site's records have a step. For kRows, the number of rows.

  /// Returns how many values the record holds.
  uint64_t values() const {
    return kind == RecordKind::kValue ? 1 : kind == RecordKind::kRows ? static_cast<uint64_t>(step) : 0;
  }
  /// Returns the number of the record, or of its last row.
  uint64_t last_sequence() const { return sequence + (kind == RecordKind::kRows ? values() - 1 : 0); }

  callout_buffer* buffers() { return reinterpret_cast<callout_buffer*>(this + 1); }
  void** blocks() { return reinterpret_cast<void**>(buffers() + num_buffers); }
  int64_t* dims() { return reinterpret_cast<int64_t*>(blocks() + num_buffers); }
};

inline constexpr size_t AlignUp(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// How a delivery thread rests. Waking a sleeping thread costs the producer microseconds, which a tap must not pay each
// time. So the thread first naps: for a fraction of a millisecond it sleeps and then looks again, and producers do not
// wake it unless the queue fills. After several idle naps it sleeps, and then the first producer wakes it (model:
// tests/memory_model). `IdleBackoff` computes the length of naps.

/// The lengths of a delivery thread's naps. Not thread-safe: only the delivery thread uses its IdleBackoff.
class IdleBackoff {
 public:
  using Duration = std::chrono::microseconds;
  static constexpr Duration kShortest{100};
  static constexpr Duration kIdle{200};  ///< After a nap that found nothing.
  static constexpr Duration kLongest{800};
  static constexpr uint64_t kManyBytes = 2 << 20;
  static constexpr int kIdleBeforeSleep = 3;

  /// Counts a delivered record.
  void Count(uint64_t bytes) {
    ++records_;
    bytes_ += bytes;
  }

  /// Returns how long to nap when there is nothing to deliver; zero: sleep.
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

enum class Rest : uint32_t { kAwake, kTimedWait, kSleeping };

class Wakeup {
 public:
  /// Wakes the thread if it sleeps. The caller first publishes the work by a seq_cst write, which pairs with the
  /// seq_cst read of `has_work` in Sleep: either the producer sees the sleeper or the sleeper sees the work.
  /// Thread-safe.
  void Notify() {
    if (rest_.load(std::memory_order_seq_cst) == Rest::kSleeping) [[unlikely]]
      Interrupt();
  }

  /// Ends a nap. A caller that misses the begin of a nap has to wait for its end. Thread-safe.
  void EndTimedWait() {
    if (rest() == Rest::kTimedWait) Interrupt();  // the caller reads nothing that depends on rest_
  }

  /// Returns what the thread did a moment ago. Thread-safe.
  Rest rest() const { return rest_.load(std::memory_order_relaxed); }

  /// Ends a nap or sleep at once. Thread-safe.
  void Interrupt() {
    MutexLock lock(mutex_);
    interrupted_ = true;
    changed_.notify_one();
  }

  /// Blocks until `duration` is over or Interrupt is called. One thread.
  void TimedWait(std::chrono::microseconds duration) {
    MutexLock lock(mutex_);
    rest_.store(Rest::kTimedWait, std::memory_order_relaxed);  // a producer that does not see it ends no nap
    if (!interrupted_) changed_.wait_for(mutex_, duration);
    rest_.store(Rest::kAwake, std::memory_order_relaxed);  // a producer that still sees a nap interrupts in vain
    interrupted_ = false;
  }

  /// Blocks until Notify or Interrupt is called, unless `has_work()`. One thread.
  template <typename HasWork>
  void Sleep(HasWork&& has_work) {
    MutexLock lock(mutex_);
    rest_.store(Rest::kSleeping, std::memory_order_seq_cst);
    while (!interrupted_ && !has_work()) changed_.wait(mutex_);
    rest_.store(Rest::kAwake, std::memory_order_relaxed);  // publishes nothing; late producers interrupt in vain
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
// Records are bump-allocated in a chain of 64 KB chunks. The producers' lock covers only the reservation of room and a
// ticket, about 20 ns; producers copy outside of the lock. The consumer takes no lock: it reads in place, in the order
// of the tickets. A header is open until a producer has written its record, and the place behind the last record
// always has an open header. So the consumer looks at the states of headers alone, and stops at the first open one. A
// lock-free ring was not chosen: it would hold its whole capacity (256 MB by default) from the start, and the lock is
// not the bottleneck (benchmarks/cpp compares with a mutex around a deque).
// tests/memory_model checks this file under every order that weak memory allows.
//
//   chunk ──next──> chunk ──next──> chunk
//    [rec][rec][end] [rec][rec][end] [rec][rec.[open
//     ^ consumer                                ^ producers take room here

struct QueueStats {
  uint64_t records = 0;  ///< Values taken since the start.
  uint64_t delivered = 0;
  uint64_t pending_bytes = 0;  ///< Bytes of records that are taken and not yet delivered.
  uint64_t high_water_bytes = 0;
  uint64_t blocked = 0;  ///< Times that a producer had to wait.
  uint64_t capacity_bytes = 0;
};

/// The worker and device of a queue, for profiles and reports.
struct QueueName {
  uint8_t worker = 0;  ///< A value of the enum Worker.
  int32_t device_ordinal = -1;
};

class BoundedQueue {
 public:
  enum class Outcome { kTaken, kFull, kClosed, kNoMemory };

  /// Makes an empty queue. `wakeup` is the consumer's and outlives the queue. Throws std::bad_alloc.
  BoundedQueue(uint64_t capacity_bytes, Wakeup& wakeup, QueueName name = {});
  ~BoundedQueue();
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  enum class WhenFull { kGiveUp, kWait, kExceed };

  /// Reserves room for a record of `bytes` in the queue's memory that counts `charged_bytes` against the capacity. A
  /// record larger than the capacity is taken when the queue is empty. kWait: Blocks until there is room or the queue
  /// is closed. The caller fills the record, whose size, kind and numbers are set, and calls Commit. `rows`: how many
  /// records a record of kind kRows holds, which have consecutive numbers. Thread-safe. GIL not needed.
  Outcome Reserve(RecordKind kind, size_t bytes, uint64_t charged_bytes, WhenFull when_full, RecordHeader** record,
                  uint32_t rows = 1);

  /// Publishes a record. Thread-safe.
  void Commit(RecordHeader* record);

  /// Returns the next committed record in order, or null. Borrowed: valid until Pop. One consumer.
  RecordHeader* Peek();

  /// Moves past the record that Peek returned. One consumer.
  void Pop(RecordHeader* record);

  /// Pops all committed records, frees their blocks and returns how many of them were values. For a consumer that gives
  /// up. One consumer.
  uint64_t CountValues();

  /// Returns the room of popped records to the producers, and wakes those that wait for it. One consumer.
  void PublishRoom();

  /// Makes popped records count as delivered, and returns their room. One consumer.
  void PublishProgress();

  /// Returns true if the queue had room for more records a moment ago. Thread-safe.
  bool HasRoomNow() const;

  /// Returns true if a popped record does not count as delivered yet. One consumer.
  bool HasUnpublished() const {
    return popped_ticket_ != delivered_.load(std::memory_order_relaxed);  // this thread stored the value
  }

  /// Closes the queue: from now on Reserve returns kClosed, and waiting producers stop waiting. Returns how many values
  /// they waited with. Thread-safe.
  int Close();
  /// Undoes Close. Thread-safe.
  void Reopen();

  /// Returns the ticket of the last record taken; 0 if none. Thread-safe.
  uint64_t taken() const { return taken_.load(std::memory_order_acquire); }
  /// Returns the ticket of the last record delivered. Thread-safe.
  uint64_t delivered() const { return delivered_.load(std::memory_order_seq_cst); }
  /// Returns true if a taken record is not delivered. The producer of a later record sees all writes that the caller
  /// made before this call. Thread-safe.
  bool HasUndelivered() const;
  /// Returns true if Peek would return a record. May also return true for a moment after producers went on to another
  /// chunk. One consumer.
  bool HasWork() const;

  /// Changes the capacity for records taken from now on. Thread-safe.
  void SetCapacity(uint64_t bytes);

  QueueStats Stats() const;
  const QueueName& name() const { return name_; }

 private:
  struct Chunk;

  bool HasRoom(uint64_t charged_bytes) CALLOUT_REQUIRES(mutex_);
  bool LookForRoom(uint64_t charged_bytes) CALLOUT_REQUIRES(mutex_);
  bool WaitForRoom(uint64_t charged_bytes, int values) CALLOUT_REQUIRES(mutex_);
  static Chunk* NewChunk(size_t record_bytes);

  Wakeup& wakeup_;
  const QueueName name_;

  // The producers' side. Members that each record changes are on one cache line, with the lock.
  alignas(64) mutable ForkMutex mutex_;
  size_t used_ CALLOUT_GUARDED_BY(mutex_) = 0;  // bytes of the tail chunk
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> charged_{0};
  // Members that each record reads, and few records change.
  alignas(64) Chunk* tail_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t known_room_ CALLOUT_GUARDED_BY(mutex_) = 0;  // `charged_` may reach this without another look at `released_`
  uint64_t capacity_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t others_ CALLOUT_GUARDED_BY(mutex_) = 0;  // tickets without a value, less further rows
  uint64_t blocked_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool closed_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::condition_variable_any room_;
  std::atomic<int> waiting_{0};  // values whose producers wait

  // The consumer's side, on cache lines of its own. Producers read `released_` only where `known_room_` is not enough;
  // the consumer reads the producers' lines only when it returns room.
  alignas(64) Chunk* head_;
  size_t head_offset_ = 0;
  uint64_t popped_ticket_ = 0;
  uint64_t popped_values_ = 0;
  uint64_t popped_charged_ = 0;
  std::atomic<uint64_t> high_water_{0};  // until room was last returned: only that lowers the level
  alignas(64) std::atomic<uint64_t> released_{0};
  std::atomic<uint64_t> delivered_{0};
  std::atomic<uint64_t> delivered_values_{0};
};

}  // namespace callout::internal
