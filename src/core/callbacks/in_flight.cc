// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/in_flight.h"

#include <algorithm>
#include <bit>

#include "core/base/platform.h"

namespace callout::internal {

// The slot of one thread, in a list that only grows. A thread that ends leaves its slot to the next one.
struct alignas(64) InFlightSlot {
  std::atomic<bool> taken{true};
  std::atomic<Activity> activity{Activity::kIdle};
  std::atomic<uint64_t> serial{0};
  std::atomic<uint64_t> callback_id{0};
  std::atomic<int32_t> device_ordinal{-1};
  std::atomic<int64_t> run_id{0};
  std::atomic<const char*> label{nullptr};
  std::atomic<int64_t> thread_id{0};
  std::atomic<bool> holds_gpu{false};
  InFlightSlot* next = nullptr;
};

namespace {

using Slot = InFlightSlot;

std::atomic<Slot*> g_slots{nullptr};
std::atomic<void (*)()> g_on_new_thread{nullptr};

Slot* TakeSlot() {
  // seq_cst: a thread that finds a slot here comes after the thread that added it, also in the order of the next two
  // accesses.
  for (Slot* slot = g_slots.load(std::memory_order_seq_cst); slot != nullptr; slot = slot->next) {
    bool taken = false;
    // Pairs with the release in ~SlotOwner: the previous owner's last activity comes before this thread's.
    if (slot->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return slot;
  }
  auto* slot = new Slot;
  slot->next = g_slots.load(std::memory_order_relaxed);
  // seq_cst, before reading `g_on_new_thread`: pairs with WhenThreadsCall, so that one of the two sees the other's
  // write.
  while (!g_slots.compare_exchange_weak(slot->next, slot, std::memory_order_seq_cst, std::memory_order_relaxed)) {
  }
  return slot;
}

struct SlotOwner {
  Slot* slot = TakeSlot();
  SlotOwner() {
    slot->thread_id.store(ThreadNumber(), std::memory_order_relaxed);
    if (auto* const listener = g_on_new_thread.load(std::memory_order_seq_cst)) listener();
  }
  ~SlotOwner() {
    slot->activity.store(Activity::kIdle, std::memory_order_relaxed);
    slot->taken.store(false, std::memory_order_release);
  }
};

Slot& ThreadSlot() {
  thread_local SlotOwner owner;
  return *owner.slot;
}

void Write(Slot& slot, Activity activity, uint64_t callback_id, int32_t device_ordinal, int64_t run_id,
           const char* label) {
  // No other thread writes the slot. The watchdog tolerates a reading torn between two states: it acts only on a serial
  // that has not changed for seconds.
  slot.callback_id.store(callback_id, std::memory_order_relaxed);
  slot.device_ordinal.store(device_ordinal, std::memory_order_relaxed);
  slot.run_id.store(run_id, std::memory_order_relaxed);
  slot.label.store(label, std::memory_order_relaxed);
  slot.activity.store(activity, std::memory_order_relaxed);
  slot.serial.store(slot.serial.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

InFlightScope::InFlightScope(Activity activity, uint64_t callback_id, int32_t device_ordinal, int64_t run_id,
                             const char* label)
    : slot_(&ThreadSlot()),
      saved_{slot_->activity.load(std::memory_order_relaxed), slot_->callback_id.load(std::memory_order_relaxed),
             slot_->device_ordinal.load(std::memory_order_relaxed), slot_->run_id.load(std::memory_order_relaxed),
             slot_->label.load(std::memory_order_relaxed)} {
  Write(*slot_, activity, callback_id, device_ordinal, run_id, label);
}

InFlightScope::~InFlightScope() {
  Write(*slot_, saved_.activity, saved_.callback_id, saved_.device_ordinal, saved_.run_id, saved_.label);
}

GpuScope::GpuScope() : held_before_(ThreadSlot().holds_gpu.exchange(true, std::memory_order_relaxed)) {}
GpuScope::~GpuScope() { ThreadSlot().holds_gpu.store(held_before_, std::memory_order_relaxed); }

bool InsideCall() { return ThreadSlot().activity.load(std::memory_order_relaxed) == Activity::kCall; }

void WhenThreadsCall(void (*listener)()) {
  g_on_new_thread.store(listener, std::memory_order_seq_cst);
  if (g_slots.load(std::memory_order_seq_cst) != nullptr) listener();
}

// Finds the slot by the kernel's number of the thread, because a signal handler must not create a thread_local
// variable.
const char* RunningCallback(Activity& activity) {
  const int64_t here = ThreadNumber();
  for (const Slot* slot = g_slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    if (!slot->taken.load(std::memory_order_acquire)) continue;
    if (slot->thread_id.load(std::memory_order_relaxed) != here) continue;
    activity = slot->activity.load(std::memory_order_relaxed);
    return activity == Activity::kIdle ? nullptr : slot->label.load(std::memory_order_relaxed);
  }
  return nullptr;
}

std::vector<InFlight> ReadInFlight() {
  std::vector<InFlight> readings;
  for (Slot* slot = g_slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    InFlight reading;
    reading.serial = slot->serial.load(std::memory_order_acquire);  // pairs with the release in Write
    reading.activity = slot->activity.load(std::memory_order_relaxed);
    if (reading.activity == Activity::kIdle) continue;
    reading.callback_id = slot->callback_id.load(std::memory_order_relaxed);
    reading.device_ordinal = slot->device_ordinal.load(std::memory_order_relaxed);
    reading.run_id = slot->run_id.load(std::memory_order_relaxed);
    reading.thread_id = slot->thread_id.load(std::memory_order_relaxed);
    reading.holds_gpu = slot->holds_gpu.load(std::memory_order_relaxed);
    readings.push_back(reading);
  }
  return readings;
}

namespace {

// One bit for each GPU; ordinals from 63 on share a bit. Relaxed: the bits publish no other data.
std::atomic<uint64_t> g_gpus{0};

uint64_t GpuBit(int ordinal) { return ordinal < 0 ? 0 : uint64_t{1} << std::min(ordinal, 63); }

}  // namespace

void NoteGpu(int ordinal) {
  const uint64_t bit = GpuBit(ordinal);
  if ((g_gpus.load(std::memory_order_relaxed) & bit) == 0) g_gpus.fetch_or(bit, std::memory_order_relaxed);
}
bool HasSeveralGpus() { return std::popcount(g_gpus.load(std::memory_order_relaxed)) > 1; }

}  // namespace callout::internal
