// SPDX-License-Identifier: Apache-2.0
#include "core/handles/handle_table.h"

#include <algorithm>
#include <random>
#include <string_view>

#include "core/base/cat.h"

namespace callout::internal {
namespace {

uint64_t RandomNumber() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;  // never 0, so that an array of zeros is no handle
}

std::string_view NameOf(HandleKind kind) { return kHandleKindNames[static_cast<size_t>(kind)]; }

// Returns the name of the class in Python.
std::string_view ClassOf(HandleKind kind) {
  switch (kind) {
    case HandleKind::kStopFlag:
      return "callout.StopFlag";
    case HandleKind::kHostValue:
      return "callout.HostValue";
    case HandleKind::kSink:
      return "sink of callout.sinks";
    case HandleKind::kFunction:
      break;
  }
  return "callout.sinks.Function";
}

}  // namespace

HandleTable::HandleTable() : process_(RandomNumber()) {}

HandleTable::~HandleTable() {
  for (std::atomic<Slot*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

HandleTable& HandleTable::Get() {
  static auto* const table = new HandleTable;
  return *table;
}

HandleTable::Slot& HandleTable::UsedSlot(uint32_t index) const {
  Slot* const slot = SlotAt(index);
  if (slot == nullptr) __builtin_unreachable();
  return *slot;
}

Result<uint32_t> HandleTable::TakeIndex() {
  if (!free_.empty()) {
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  if (size_ == kChunks * kChunkSlots) {
    return ResourceExhausted(
        Cat("callout: ", size_, " objects with handles exist: drop some, and call callout.barrier_wait()"));
  }
  if (size_ % kChunkSlots == 0) {
    chunks_[size_ / kChunkSlots].store(new Slot[kChunkSlots], std::memory_order_release);  // pairs with SlotAt
  }
  return size_++;
}

Result<Handle> HandleTable::Add(std::shared_ptr<HostObject> object) {
  const MutexLock lock(mutex_);
  CALLOUT_ASSIGN_OR_RETURN(const uint32_t index, TakeIndex());
  Slot& slot = UsedSlot(index);
  uint32_t generation = slot.newest.load(std::memory_order_relaxed) + 1;
  if (generation == 0) generation = 1;
  slot.newest.store(generation, std::memory_order_relaxed);
  slot.kind = object->kind();
  slot.object = std::move(object);
  slot.generation.store(generation, std::memory_order_release);  // pairs with Find
  return Handle{.index = index, .generation = generation, .process = process_};
}

Status HandleTable::WhyNotFound(const Handle& handle, HandleKind kind) const {
  const std::string_view name = NameOf(kind);
  if (handle.process != process_) {
    return FailedPrecondition(Cat("callout: ", name,
                                  ": its leaf is no handle of this process: it comes from another process, as in a "
                                  "checkpoint, or is zeros or other numbers. Make a new ",
                                  ClassOf(kind), ", and put it into the pytree in place of this one"));
  }
  const Slot* const slot = SlotAt(handle.index);
  const uint32_t newest = slot == nullptr ? 0 : slot->newest.load(std::memory_order_relaxed);
  if (handle.generation == 0 || handle.generation > newest) {
    return FailedPrecondition(Cat("callout: ", name, ": no object has this handle (index ", handle.index,
                                  ", generation ", handle.generation, "): the numbers of the handle were changed"));
  }
  if (slot->generation.load(std::memory_order_relaxed) == handle.generation) {
    return FailedPrecondition(Cat("callout: ", name, ": its leaf is the handle of an object of another kind"));
  }
  return FailedPrecondition(Cat("callout: ", name,
                                ": the object of this handle is gone, because nothing in Python refers to it any more: "
                                "keep the ",
                                ClassOf(kind), " that was made for as long as programs use it"));
}

void HandleTable::Retire(const Handle& handle) {
  const MutexLock lock(mutex_);
  retired_.push_back(handle);
  ++retired_ever_;
}

HandleTable::Retired HandleTable::retired() const {
  const MutexLock lock(mutex_);
  return {.ever = retired_ever_, .kept = retired_.size()};
}

void HandleTable::Free(uint64_t count) {
  std::vector<Handle> handles;
  {
    const MutexLock lock(mutex_);
    const uint64_t before = retired_ever_ - retired_.size();
    if (count <= before) return;
    const auto end = retired_.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(count - before, retired_.size()));
    handles.assign(retired_.begin(), end);
    retired_.erase(retired_.begin(), end);
  }
  for (const Handle& handle : handles) Remove(handle);
}

void HandleTable::Remove(const Handle& handle) {
  Slot& slot = UsedSlot(handle.index);
  slot.generation.store(0, std::memory_order_seq_cst);
  Hazard::WaitForReaders(&slot);
  const std::shared_ptr<HostObject> object = std::move(slot.object);  // destroyed outside of the lock
  const MutexLock lock(mutex_);
  free_.push_back(handle.index);
}

}  // namespace callout::internal
