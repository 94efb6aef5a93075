// SPDX-License-Identifier: Apache-2.0
//
// Hazard pointers: a thread announces which object it reads, and a thread that removes the object checks the
// announcements before it destroys the object. A read costs one exchange of memory that only its thread uses; a
// reference count would cost two exchanges of memory that moves between processors.
#pragma once

#include <atomic>
#include <utility>

#include "callout/export.h"

namespace callout::internal {

class CALLOUT_EXPORT Hazard {
 public:
  /// Announces the object that `source` points to, and reads the pointer. The object stays alive until the Hazard ends,
  /// if threads that replace it in `source` call IsRead before they destroy it. The pointer may be null. A thread may
  /// have at most kMostOfThread at once. Thread-safe.
  template <typename T>
  static Hazard Of(const std::atomic<T*>& source, T*& object) {
    Hazard hazard;
    for (object = source.load(std::memory_order_relaxed);;) {
      // A writer changes `source` and then reads the hazards; a reader announces its hazard and then reads `source`.
      // All four are seq_cst, so one of the two sees the other.
      hazard.Announce(object);
      T* const again = source.load(std::memory_order_seq_cst);
      if (again == object) [[likely]]
        return hazard;
      object = again;
    }
  }

  /// Announces that this thread reads `object`. Before the caller uses the object, it must check, with
  /// memory_order_seq_cst, that no other thread has removed the object from the place where the caller found it.
  explicit Hazard(const void* object) : place_(FreePlace()) { Announce(object); }
  Hazard(Hazard&& other) noexcept : place_(std::exchange(other.place_, nullptr)) {}
  Hazard& operator=(Hazard&&) = delete;
  ~Hazard() {
    if (place_ != nullptr) place_->store(nullptr, std::memory_order_release);  // pairs with IsRead
  }

  /// Returns whether any thread may still read `object`, which new readers cannot find any more. Thread-safe.
  static bool IsRead(const void* object);

  /// Blocks until no thread reads `object`, which new readers cannot find any more. The wait takes moments.
  /// Thread-safe.
  static void WaitForReaders(const void* object);

 private:
  static constexpr int kMostOfThread = 4;
  using Place = std::atomic<const void*>;
  struct Slots;
  struct Owner;

  Hazard() : place_(FreePlace()) {}
  void Announce(const void* object) { place_->store(object, std::memory_order_seq_cst); }
  static Place* FreePlace();

  Place* place_;  // owned by this thread; null after a move
};

}  // namespace callout::internal
