// SPDX-License-Identifier: Apache-2.0
//
// The objects of this process that programs know by a handle. A handle is four numbers that pass through a program as
// an array, so each use checks the numbers again. An object whose owner is gone is retired: programs that were
// dispatched before still find it, until Free is called after their end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/base/hazard.h"
#include "core/handles/handle.h"
#include "core/handles/host_object.h"

namespace callout::internal {

class HandleTable {
  struct alignas(64) Slot {
    std::atomic<uint32_t> generation{0};  // 0: empty
    std::atomic<uint32_t> newest{0};      // the last generation that the slot ever had
    HandleKind kind{};                    // kind of `object`
    std::shared_ptr<HostObject> object;   // unchanged while `generation` is not 0 or a Hazard is on the slot
  };

 public:
  /// A found object, or none. The object stays alive during the life of this, which must be short, because Free waits
  /// for it.
  class Found {
   public:
    explicit operator bool() const { return object_ != nullptr; }
    HostObject* operator->() const { return object_; }
    HostObject& operator*() const { return *object_; }

   private:
    friend class HandleTable;
    explicit Found(const Slot* slot) : hazard_(slot) {}
    Hazard hazard_;
    HostObject* object_ = nullptr;
  };

  CALLOUT_EXPORT HandleTable();
  CALLOUT_EXPORT ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// Returns the table of this process, which is never destroyed. Thread-safe.
  CALLOUT_EXPORT static HandleTable& Get();

  /// Adds an object. ResourceExhausted if there are a million objects. Thread-safe.
  CALLOUT_EXPORT Result<Handle> Add(std::shared_ptr<HostObject> object);

  /// Finds the object of a program's handle, by one atomic exchange and no lock. Finds none for numbers that are no
  /// handle of this process, for an object of another kind, and for an object that is gone. Thread-safe.
  Found Find(const Handle& handle, HandleKind kind) const {
    const Slot* const slot = handle.process == process_ ? SlotAt(handle.index) : nullptr;
    // Free clears `generation` and then looks for readers; a reader announces itself and then reads `generation`. All
    // four are seq_cst, so one of the two sees the other.
    Found found(slot);
    if (slot == nullptr) [[unlikely]]
      return found;
    const uint32_t generation = slot->generation.load(std::memory_order_seq_cst);
    if (generation != 0 && generation == handle.generation && slot->kind == kind) [[likely]]
      found.object_ = slot->object.get();
    return found;
  }
  /// Returns why Find found no object: FailedPrecondition, with the kind. Thread-safe.
  CALLOUT_EXPORT Status WhyNotFound(const Handle& handle, HandleKind kind) const;

  /// Retires the object of a handle, whose owner is gone. Thread-safe.
  CALLOUT_EXPORT void Retire(const Handle& handle);
  /// Destroys the object of a handle at once: later readers do not find it. Blocks until nobody holds a Found of it.
  /// Must be called once, for a handle that was not retired. Thread-safe.
  CALLOUT_EXPORT void Remove(const Handle& handle);

  /// The number of objects that were ever retired, and of those that still exist. Thread-safe.
  struct Retired {
    uint64_t ever = 0;
    uint64_t kept = 0;
  };
  CALLOUT_EXPORT Retired retired() const;

  /// Destroys the first `count` objects that were ever retired, after the end of the programs that were dispatched
  /// before. Blocks until nobody holds a Found of one. Thread-safe.
  CALLOUT_EXPORT void Free(uint64_t count);

 private:
  static constexpr uint32_t kChunkSlots = 256;
  static constexpr uint32_t kChunks = 4096;

  /// Returns null for an index that no object ever had.
  Slot* SlotAt(uint32_t index) const {
    const uint32_t chunk = index / kChunkSlots;
    if (chunk >= kChunks) return nullptr;
    Slot* const slots = chunks_[chunk].load(std::memory_order_acquire);  // pairs with the release in TakeIndex
    return slots == nullptr ? nullptr : &slots[index % kChunkSlots];
  }
  Slot& UsedSlot(uint32_t index) const;
  Result<uint32_t> TakeIndex() CALLOUT_REQUIRES(mutex_);

  const uint64_t process_;
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
  mutable ForkMutex mutex_;
  uint32_t size_ CALLOUT_GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> free_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<Handle> retired_ CALLOUT_GUARDED_BY(mutex_);  // in order; the last one is the `retired_ever_`-th
  uint64_t retired_ever_ CALLOUT_GUARDED_BY(mutex_) = 0;
};

}  // namespace callout::internal
