// SPDX-License-Identifier: Apache-2.0
#include "delivery/bounded_queue.h"

#include <algorithm>
#include <new>

#include "base/block_pool.h"
#include "base/pause.h"

namespace callout::internal {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
constexpr int kSpins = 100;  // about as long as waking a thread takes

// Of a lock that is held for some 20 ns: to sleep until it is free takes a hundred times as long.
class CALLOUT_ATTRIBUTE(scoped_lockable) SpinningLock {
 public:
  explicit SpinningLock(Mutex& mutex) CALLOUT_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    for (int i = 0; i < kSpins; ++i) {
      if (mutex_.try_lock()) return;
      Pause();
    }
    mutex_.lock();
  }
  ~SpinningLock() CALLOUT_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  SpinningLock(const SpinningLock&) = delete;
  SpinningLock& operator=(const SpinningLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace

struct BoundedQueue::Chunk {
  size_t bytes;                     // behind this struct
  std::atomic<size_t> reserved{0};  // room taken; headers below it are initialised
  std::atomic<Chunk*> next{nullptr};

  char* data() { return reinterpret_cast<char*>(this) + AlignUp(sizeof(Chunk), 64); }
};

BoundedQueue::BoundedQueue(uint64_t capacity_bytes, Wakeup& wakeup, QueueName name)
    : wakeup_(wakeup), name_(name), capacity_(capacity_bytes) {
  MutexLock lock(mutex_);
  tail_ = head_ = NewChunk(kChunkBytes);
  if (head_ == nullptr) throw std::bad_alloc();
}

BoundedQueue::~BoundedQueue() {
  (void)CountValues();
  for (Chunk* chunk = head_; chunk != nullptr;) {
    Chunk* next = chunk->next.load(std::memory_order_relaxed);
    FreePooled(chunk);
    chunk = next;
  }
}

BoundedQueue::Chunk* BoundedQueue::NewChunk(size_t bytes) {
  const size_t usable = std::max(bytes, kChunkBytes);
  // Pooled: a backlog of many chunks would fault in fresh pages for each, which costs more than the records do.
  void* memory = AllocatePooled(AlignUp(sizeof(Chunk), 64) + usable);
  return memory == nullptr ? nullptr : new (memory) Chunk{.bytes = usable};
}

bool BoundedQueue::HasRoom(uint64_t charged_bytes) {
  // What was released when somebody last looked is no more than what is: the consumer's line stays with the consumer.
  if (charged_ - known_released_ + charged_bytes <= capacity_) [[likely]]
    return true;
  known_released_ = released_.load(std::memory_order_seq_cst);  // pairs with PublishRoom
  const uint64_t pending = charged_ - known_released_;
  return pending == 0 || pending + charged_bytes <= capacity_;
}

bool BoundedQueue::WaitForRoom(uint64_t charged_bytes) {
  ++blocked_;
  // seq_cst: either the consumer sees that somebody waits, or HasRoom sees what it released.
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  while (!closed_ && !HasRoom(charged_bytes)) {
    wakeup_.Interrupt();
    room_.wait(mutex_);
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);  // who misses it notifies nobody
  return !closed_;
}

BoundedQueue::Outcome BoundedQueue::Reserve(RecordKind kind, size_t bytes, uint64_t charged_bytes, WhenFull when_full,
                                            RecordHeader** record) {
  bytes = AlignUp(bytes, alignof(RecordHeader));
  SpinningLock lock(mutex_);
  if (closed_) return Outcome::kClosed;
  if (!HasRoom(charged_bytes)) [[unlikely]] {
    if (when_full == WhenFull::kGiveUp) return Outcome::kFull;
    if (when_full == WhenFull::kWait && !WaitForRoom(charged_bytes)) return Outcome::kClosed;
  }
  size_t offset = tail_->reserved.load(std::memory_order_relaxed);
  if (offset + bytes > tail_->bytes) {
    Chunk* chunk = NewChunk(bytes);
    if (chunk == nullptr) return Outcome::kNoMemory;
    tail_->next.store(chunk, std::memory_order_release);  // pairs with the acquire in Peek
    tail_ = chunk;
    offset = 0;
  }
  auto* header = new (tail_->data() + offset) RecordHeader;
  header->committed.store(0, std::memory_order_relaxed);
  header->bytes = static_cast<uint32_t>(bytes);
  header->charged_bytes = charged_bytes;
  header->kind = kind;
  header->num_buffers = 0;
  header->ticket = taken_.load(std::memory_order_relaxed) + 1;  // changes under this lock alone
  if (kind == RecordKind::kValue) ++values_;
  header->sequence = values_;
  taken_.store(header->ticket, std::memory_order_release);
  charged_ += charged_bytes;
  if (charged_ - known_released_ > high_water_) {                 // only then can the level be higher than it ever was
    known_released_ = released_.load(std::memory_order_relaxed);  // a count: no memory is given back by it
    high_water_ = std::max(high_water_, charged_ - known_released_);
  }
  tail_->reserved.store(offset + bytes, std::memory_order_release);  // pairs with the acquire in Peek
  *record = header;
  return Outcome::kTaken;
}

void BoundedQueue::Commit(RecordHeader* record) {
  record->committed.store(1, std::memory_order_release);  // pairs with the acquire in Peek
  committed_.fetch_add(1, std::memory_order_seq_cst);     // pairs with HasWork, see Wakeup::Notify
  wakeup_.Notify();
}

RecordHeader* BoundedQueue::Peek() {
  while (head_offset_ >= head_reserved_) {  // else the producers' line stays with the producers
    // `next` is read first: once it is set, `reserved` of this chunk no longer grows.
    Chunk* next = head_->next.load(std::memory_order_acquire);
    head_reserved_ = head_->reserved.load(std::memory_order_acquire);
    if (head_offset_ < head_reserved_) break;
    if (next == nullptr) return nullptr;
    Chunk* done = head_;
    head_ = next;
    head_offset_ = head_reserved_ = 0;
    FreePooled(done);
  }
  auto* header = reinterpret_cast<RecordHeader*>(head_->data() + head_offset_);
  return header->committed.load(std::memory_order_acquire) != 0 ? header : nullptr;
}

void BoundedQueue::Pop(RecordHeader* record) {
  ++popped_;
  popped_ticket_ = record->ticket;
  popped_values_ = record->sequence;
  popped_charged_ += record->charged_bytes;
  head_offset_ += record->bytes;
}

uint64_t BoundedQueue::CountValues() {
  uint64_t values = 0;
  while (RecordHeader* record = Peek()) {
    if (record->kind == RecordKind::kValue) ++values;
    for (uint32_t i = 0; i < record->num_buffers; ++i) FreeBlock(record->blocks()[i]);
    Pop(record);
  }
  return values;
}

void BoundedQueue::PublishProgress() {
  if (HasUnpublished()) {  // a store takes the line from the producers, whatever it stores
    delivered_values_.store(popped_values_, std::memory_order_relaxed);  // for Stats
    delivered_.store(popped_ticket_, std::memory_order_seq_cst);
  }
  PublishRoom();
}

void BoundedQueue::PublishRoom() {
  if (released_.load(std::memory_order_relaxed) != popped_charged_) {  // what this thread stored
    released_.store(popped_charged_, std::memory_order_seq_cst);
  }
  if (waiting_.load(std::memory_order_seq_cst) > 0) {
    MutexLock lock(mutex_);
    room_.notify_all();
  }
}

int BoundedQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  room_.notify_all();
  return waiting_.load(std::memory_order_relaxed);
}

void BoundedQueue::Reopen() {
  MutexLock lock(mutex_);
  closed_ = false;
}

void BoundedQueue::SetCapacity(uint64_t bytes) {
  MutexLock lock(mutex_);
  capacity_ = bytes;
  room_.notify_all();
}

QueueStats BoundedQueue::Stats() const {
  MutexLock lock(mutex_);
  return {.records = values_,
          .delivered = delivered_values_.load(std::memory_order_relaxed),
          .pending_bytes = charged_ - released_.load(std::memory_order_relaxed),
          .high_water_bytes = high_water_,
          .blocked = blocked_,
          .capacity_bytes = capacity_};
}

}  // namespace callout::internal
