// SPDX-License-Identifier: Apache-2.0
//
// Compiles the unchanged src/core/delivery for a model: the queue, the wakeup and the delivery thread. Records have no
// site, because their kind is kLost, which the thread pops and destroys; here, the destructor of records counts them.
#pragma once

#include <cstdint>

#include "standard.h"

#include "core/delivery/bounded_queue.cc"
#include "core/delivery/delivery_thread.cc"
#undef thread

namespace callout::model {

using internal::BatchGate;
using internal::BoundedQueue;
using internal::DeliveryErrors;
using internal::DeliveryThread;
using internal::RecordHeader;
using internal::RecordKind;
using WhenFull = internal::BoundedQueue::WhenFull;

inline constexpr size_t kHalfChunk = 40000;  // the second such record needs a new chunk
inline constexpr auto kForever = std::chrono::steady_clock::time_point::max();

/// The content of a record: a plain variable, so that a reader that is not ordered after its writer is a data race.
struct Payload {
  rl::var<int> value;
  bool is_consumed = false;  // seen by the model outside of any thread's time
};

/// Wakes the threads that wait until records are consumed.
struct Consumed {
  std::mutex lock;
  std::condition_variable_any changed;
  int count = 0;
};
inline Consumed* g_consumed = nullptr;

/// Suites of one queue, its delivery thread and some producers. Each Push makes a record that counts `charged` against
/// the queue's capacity and takes `bytes` more of the queue's memory than the record needs.
template <typename Suite, int kThreads, int kStarts = 1>
struct DeliverySuite : rl::test_suite<Suite, kThreads> {
  static constexpr size_t dynamic_thread_count = kStarts;

  std::optional<Consumed> consumed;
  std::optional<DeliveryErrors> errors;
  std::optional<DeliveryThread> delivery;
  BoundedQueue* queue = nullptr;
  std::vector<std::unique_ptr<Payload>> payloads;
  uint64_t capacity = uint64_t{1} << 40;
  // A batch may find nothing because an earlier record is not committed yet; the yield then gives other threads a turn.
  BatchGate gate = {.enter = [] { return true; }, .leave = [] { rl::yield(1, Here(__FILE__, __LINE__)); }};

  void before() {
    Live::ForgetAll();
    g_consumed = &consumed.emplace();
    errors.emplace();
    delivery.emplace("model", gate, *errors);
    queue = delivery->AddQueue(capacity);
  }
  void after() {
    for (const auto& payload : payloads) RL_ASSERT(payload->is_consumed);
    delivery.reset();
    errors.reset();
    consumed.reset();
    payloads.clear();
  }

  /// Pushes a record by the steps of Delivery::PushTo.
  BoundedQueue::Outcome Push(int value, uint64_t charged = 1, size_t bytes = 0,
                             WhenFull when_full = WhenFull::kGiveUp) {
    RecordHeader* record = nullptr;
    const size_t needed = sizeof(RecordHeader) + sizeof(callout_buffer) + sizeof(void*);
    const auto outcome = queue->Reserve(RecordKind::kLost, needed + bytes, charged, when_full, &record);
    if (outcome != BoundedQueue::Outcome::kTaken) return outcome;
    Payload& payload = *payloads.emplace_back(std::make_unique<Payload>());
    payload.value($) = value;
    record->num_buffers = 1;
    record->blocks()[0] = &payload;
    queue->Commit(record);
    delivery->StartIfParked();
    return outcome;
  }

  void WaitUntilConsumed(int count) {
    consumed->lock.lock();
    while (consumed->count < count) consumed->changed.wait(consumed->lock);
    consumed->lock.unlock();
  }
};

}  // namespace callout::model

namespace callout::internal {

// Prints a state in Relacy's histories.
inline std::ostream& operator<<(std::ostream& out, RecordState state) { return out << static_cast<uint32_t>(state); }
inline std::ostream& operator<<(std::ostream& out, Rest rest) { return out << static_cast<uint32_t>(rest); }

// Definitions that src/core/delivery needs from other folders.
ForkMutex::ForkMutex() = default;
ForkMutex::~ForkMutex() = default;

void* AllocatePooled(size_t bytes) {
  constexpr size_t kAlignment = 64;
  auto* block = static_cast<char*>(std::aligned_alloc(kAlignment, kAlignment + AlignUp(bytes, kAlignment)));
  std::memcpy(block, &bytes, sizeof(bytes));
  return block + kAlignment;
}

void FreePooled(void* memory) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kUsed = 1024;
  char* const block = static_cast<char*>(memory) - kAlignment;
  size_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  model::Live::DestroyWithin(memory, bytes);
  std::memset(memory, 0xDD, kUsed);  // Relacy reports any use of an atomic in this memory
  std::free(block);
}

// The block of a record is its payload.
void FreeBlock(void* block) {
  auto& payload = *static_cast<model::Payload*>(block);
  RL_ASSERT(!payload.is_consumed);
  RL_ASSERT(payload.value($).load() != 0);
  payload.is_consumed = true;
  model::g_consumed->lock.lock();
  ++model::g_consumed->count;
  model::g_consumed->changed.notify_all();
  model::g_consumed->lock.unlock();
}

Status CaughtStatus() { return OkStatus(); }
std::string DescribeFailure(const Callback& /*callback*/, int32_t /*device_ordinal*/, const Status& /*status*/) {
  return "";
}
bool LogEnabled(LogLevel /*level*/) { return false; }
void Log(LogLevel /*level*/, std::string_view /*message*/, LogSource /*source*/) {}
InFlightScope::InFlightScope(Activity /*activity*/, uint64_t /*callback_id*/, int32_t /*device*/, int64_t /*run_id*/,
                             const char* /*label*/) {}
InFlightScope::~InFlightScope() = default;
ProfileEvent EventOf(ProfileKind, const Callback&, int32_t, uint32_t) { return {}; }
std::string ShapeString(const callout_buffer& /*buffer*/) { return ""; }
RowReader::RowReader(const TapSite& /*site*/, const Record& /*whole*/, uint32_t /*rows*/) { std::abort(); }
const Record& RowReader::Read(uint32_t /*row*/, uint64_t /*sequence*/) { return record_; }
int64_t SteadyNanoseconds() { return 0; }
double TicksToNanoseconds(uint64_t ticks) { return static_cast<double>(ticks); }
std::atomic<int64_t>& LiveCounter(LiveKind /*kind*/) { std::abort(); }
bool ProcessIsForkedChild() { return false; }
void NameThisThread(const char* /*name*/) {}
void WakeOnTime() {}

}  // namespace callout::internal

callout::Status callout::Status::WithMessage(std::string /*message*/) const { return *this; }
