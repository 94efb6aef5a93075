// SPDX-License-Identifier: Apache-2.0
#include "core/base/hazard.h"

#include <pthread.h>

#include <thread>

#include "core/base/invariant.h"

namespace callout::internal {

// The slots of one thread, in a list that only grows. A thread that ends leaves its slots to the next one.
struct alignas(64) Hazard::Slots {
  Place places[kMostOfThread] = {};
  std::atomic<bool> taken{true};
  Slots* next = nullptr;
};

namespace {

std::atomic<void*> g_newest{nullptr};

}  // namespace

struct Hazard::Owner {
  static Slots* Newest() { return static_cast<Slots*>(g_newest.load(std::memory_order_seq_cst)); }

  // Clears the slots of all other threads in a forked child, where those threads do not exist and read nothing.
  static void ForgetOthers() {
    for (Slots* slots = Newest(); slots != nullptr; slots = slots->next) {
      if (slots == of_thread) continue;
      for (Place& place : slots->places) place.store(nullptr, std::memory_order_relaxed);
    }
  }

  static Slots* Take() {
    [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, &ForgetOthers);
    for (Slots* slots = Newest(); slots != nullptr; slots = slots->next) {
      bool taken = false;
      // The exchange pairs with ~Owner.
      if (slots->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return slots;
    }
    auto* const slots = new Slots;
    void* next = g_newest.load(std::memory_order_relaxed);
    do {
      slots->next = static_cast<Slots*>(next);
    } while (!g_newest.compare_exchange_weak(next, slots, std::memory_order_seq_cst));
    return slots;
  }

  Owner() { of_thread = slots; }
  ~Owner() {
    of_thread = nullptr;
    slots->taken.store(false, std::memory_order_release);  // pairs with Take
  }

  Slots* const slots = Take();
  static thread_local Slots* of_thread;  // separate from Owner, because it needs no initialization at each use
};

thread_local Hazard::Slots* Hazard::Owner::of_thread = nullptr;

Hazard::Place* Hazard::FreePlace() {
  if (Owner::of_thread == nullptr) [[unlikely]] {
    thread_local const Owner owner;
    if (Owner::of_thread == nullptr) Owner::of_thread = Owner::Take();  // the thread is ending, and keeps the slots
  }
  for (Place& place : Owner::of_thread->places) {
    if (place.load(std::memory_order_relaxed) == nullptr) [[likely]]
      return &place;
  }
  CALLOUT_CHECK(false, "a thread reads too many objects at once");
}

bool Hazard::IsRead(const void* object) {
  for (const Slots* slots = Owner::Newest(); slots != nullptr; slots = slots->next) {
    for (const Place& place : slots->places) {
      if (place.load(std::memory_order_seq_cst) == object) return true;
    }
  }
  return false;
}

void Hazard::WaitForReaders(const void* object) {
  while (IsRead(object)) std::this_thread::yield();
}

}  // namespace callout::internal
