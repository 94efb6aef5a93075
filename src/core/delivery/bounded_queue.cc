// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/bounded_queue.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/block_pool.h"
#include "core/base/pause.h"

namespace callout::internal {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
// A nap ends once this many bytes wait: large records are then delivered while their memory is in the caches, and no
// queue fills during a nap.
constexpr uint64_t kPromptBytes = 8 << 20;
constexpr int kFewestPauses = 8;
constexpr int kMostPauses = 64;  // all pauses together take about as long as waking a thread

// The lock is held for about 20 ns, so a waiter spins: sleeping would take a hundred times as long. Each attempt pulls
// the lock's cache line from its owner, and moving the line from core to core, up to 200 ns, is what limits producers.
// Waiters therefore try rarely, and a producer that has the line pushes several records before it loses the line.
class CALLOUT_ATTRIBUTE(scoped_lockable) SpinningLock {
 public:
  explicit SpinningLock(Mutex& mutex) CALLOUT_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    for (int pauses = kFewestPauses; pauses <= kMostPauses; pauses *= 2) {
      if (mutex_.try_lock()) return;
      for (int i = 0; i < pauses; ++i) Pause();
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
  size_t bytes;           // bytes of records, after this struct
  Chunk* next = nullptr;  // published by the state kEnd of this chunk

  RecordHeader* At(size_t offset) {
    return reinterpret_cast<RecordHeader*>(reinterpret_cast<char*>(this) + AlignUp(sizeof(Chunk), 64) + offset);
  }
};

BoundedQueue::BoundedQueue(uint64_t capacity_bytes, Wakeup& wakeup, QueueName name)
    : wakeup_(wakeup), name_(name), capacity_(capacity_bytes) {
  MutexLock lock(mutex_);
  tail_ = head_ = NewChunk(0);
  if (head_ == nullptr) throw std::bad_alloc();
}

BoundedQueue::~BoundedQueue() {
  (void)CountValues();
  for (Chunk* chunk = head_; chunk != nullptr;) {
    Chunk* next = chunk->next;
    FreePooled(chunk);
    chunk = next;
  }
}

BoundedQueue::Chunk* BoundedQueue::NewChunk(size_t record_bytes) {
  const size_t usable = std::max(record_bytes + sizeof(RecordHeader), kChunkBytes);
  // The memory is pooled: with a backlog of many chunks, each would fault in fresh pages, which costs more than the
  // records do.
  void* memory = AllocatePooled(AlignUp(sizeof(Chunk), 64) + usable);
  if (memory == nullptr) return nullptr;
  auto* chunk = new (memory) Chunk{.bytes = usable};
  new (chunk->At(0)) RecordHeader;
  return chunk;
}

bool BoundedQueue::HasRoom(uint64_t charged_bytes) {
  // `known_room_` comes from an older `released_`, which only grows, so the room is at least as large. The consumer's
  // cache line thus stays with the consumer.
  const uint64_t charged = charged_.load(std::memory_order_relaxed);  // only changes under this lock
  if (charged + charged_bytes <= known_room_) [[likely]]
    return true;
  return LookForRoom(charged_bytes);
}

[[gnu::noinline, gnu::cold]] bool BoundedQueue::LookForRoom(uint64_t charged_bytes) {
  const uint64_t charged = charged_.load(std::memory_order_relaxed);
  const uint64_t pending = charged - released_.load(std::memory_order_seq_cst);  // pairs with PublishRoom
  const uint64_t prompt = std::min(kPromptBytes, capacity_ / 4);
  const uint64_t room = capacity_ - std::min(pending, capacity_);
  const bool are_many = pending + charged_bytes > prompt;
  if (are_many) wakeup_.EndTimedWait();
  known_room_ = charged + std::min(room, are_many ? charged_bytes + prompt : prompt - pending);
  return pending == 0 || charged_bytes <= room;
}

bool BoundedQueue::WaitForRoom(uint64_t charged_bytes, int values) {
  ++blocked_;
  // seq_cst, pairs with PublishRoom: either the consumer sees the waiter, or HasRoom sees the released room.
  waiting_.fetch_add(values, std::memory_order_seq_cst);
  while (!closed_ && !HasRoom(charged_bytes)) {
    wakeup_.Interrupt();
    room_.wait(mutex_);
  }
  waiting_.fetch_sub(values, std::memory_order_relaxed);  // a consumer that still counts this waiter notifies in vain
  return !closed_;
}

BoundedQueue::Outcome BoundedQueue::Reserve(RecordKind kind, size_t bytes, uint64_t charged_bytes, WhenFull when_full,
                                            RecordHeader** record, uint32_t rows) {
  bytes = AlignUp(bytes, alignof(RecordHeader));
  SpinningLock lock(mutex_);
  if (closed_) return Outcome::kClosed;
  if (!HasRoom(charged_bytes)) [[unlikely]] {
    if (when_full == WhenFull::kGiveUp) return Outcome::kFull;
    if (when_full == WhenFull::kWait && !WaitForRoom(charged_bytes, static_cast<int>(rows))) return Outcome::kClosed;
  }
  if (used_ + bytes + sizeof(RecordHeader) > tail_->bytes) {
    Chunk* chunk = NewChunk(bytes);
    if (chunk == nullptr) return Outcome::kNoMemory;
    tail_->next = chunk;
    tail_->At(used_)->state.store(RecordState::kEnd, std::memory_order_seq_cst);  // pairs with HasWork and Peek
    tail_ = chunk;
    used_ = 0;
  }
  RecordHeader* header = tail_->At(used_);
  used_ += bytes;
  new (tail_->At(used_)) RecordHeader;  // published by the commit of the record before it
  header->bytes = static_cast<uint32_t>(bytes);
  header->charged_bytes = charged_bytes;
  header->kind = kind;
  header->num_buffers = 0;
  header->ticket = taken_.load(std::memory_order_relaxed) + 1;  // only changes under this lock
  if (kind != RecordKind::kValue && kind != RecordKind::kRows) [[unlikely]]
    ++others_;
  header->sequence = header->ticket - others_;
  others_ -= rows - 1;
  taken_.store(header->ticket, std::memory_order_release);
  charged_.store(charged_.load(std::memory_order_relaxed) + charged_bytes, std::memory_order_relaxed);
  *record = header;
  return Outcome::kTaken;
}

void BoundedQueue::Commit(RecordHeader* record) {
  // The store pairs with Peek, and with HasWork: see Wakeup::Notify.
  record->state.store(RecordState::kCommitted, std::memory_order_seq_cst);
  wakeup_.Notify();
}

bool BoundedQueue::HasUndelivered() const {
  MutexLock lock(mutex_);  // a later producer locks after this call, and so sees the caller's writes
  return delivered_.load(std::memory_order_seq_cst) < taken_.load(std::memory_order_relaxed);
}

bool BoundedQueue::HasRoomNow() const {
  MutexLock lock(mutex_);
  const uint64_t released = released_.load(std::memory_order_relaxed);  // an older value only shows less room
  return charged_.load(std::memory_order_relaxed) - released < capacity_;
}

bool BoundedQueue::HasWork() const {
  return head_->At(head_offset_)->state.load(std::memory_order_seq_cst) != RecordState::kOpen;
}

RecordHeader* BoundedQueue::Peek() {
  for (;;) {
    RecordHeader* header = head_->At(head_offset_);
    switch (header->state.load(std::memory_order_acquire)) {  // pairs with Commit and Reserve
      case RecordState::kOpen:
        return nullptr;
      case RecordState::kCommitted:
        return header;
      case RecordState::kEnd:
        head_offset_ = 0;
        FreePooled(std::exchange(head_, head_->next));
    }
  }
}

void BoundedQueue::Pop(RecordHeader* record) {
  popped_ticket_ = record->ticket;
  popped_values_ = record->last_sequence();
  popped_charged_ += record->charged_bytes;
  head_offset_ += record->bytes;
}

uint64_t BoundedQueue::CountValues() {
  uint64_t values = 0;
  while (RecordHeader* record = Peek()) {
    values += record->values();
    for (uint32_t i = 0; i < record->num_buffers; ++i) FreeBlock(record->blocks()[i]);
    Pop(record);
  }
  return values;
}

void BoundedQueue::PublishProgress() {
  if (HasUnpublished()) {  // any store takes the cache line from the producers
    delivered_values_.store(popped_values_, std::memory_order_relaxed);  // for Stats
    delivered_.store(popped_ticket_, std::memory_order_seq_cst);
  }
  PublishRoom();
}

void BoundedQueue::PublishRoom() {
  const uint64_t released = released_.load(std::memory_order_relaxed);  // this thread stored the value
  if (released != popped_charged_) {
    const uint64_t level = charged_.load(std::memory_order_relaxed) - released;  // at least the popped bytes
    if (level > high_water_.load(std::memory_order_relaxed)) high_water_.store(level, std::memory_order_relaxed);
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
  known_room_ = 0;
  room_.notify_all();
}

QueueStats BoundedQueue::Stats() const {
  MutexLock lock(mutex_);
  const uint64_t pending = charged_.load(std::memory_order_relaxed) - released_.load(std::memory_order_relaxed);
  return {.records = taken_.load(std::memory_order_relaxed) - others_,
          .delivered = delivered_values_.load(std::memory_order_relaxed),
          .pending_bytes = pending,
          .high_water_bytes = std::max(pending, high_water_.load(std::memory_order_relaxed)),
          .blocked = blocked_,
          .capacity_bytes = capacity_};
}

}  // namespace callout::internal
