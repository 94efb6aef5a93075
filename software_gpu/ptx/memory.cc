// SPDX-License-Identifier: Apache-2.0
//
// Runs ld, st, atom, red, fences (PTX ISA 9.7.9 and 9.7.13).
#include <atomic>
#include <cstring>
#include <type_traits>

#include "ptx/handlers.h"

namespace callout::software_gpu::ptx {
namespace {

// The part of its turn that a warp loses when it reads memory that others may change, so that they get their turns.
constexpr uint32_t kLookCost = 128;
constexpr uint32_t kAtomicCost = 16;

/// Fences order accesses through this word, because ThreadSanitizer does not know std::atomic_thread_fence.
std::atomic<uint32_t> fence_word{0};

/// Returns the first address of a lane.
inline uint64_t Address(Warp& warp, const Instruction& instruction, const uint64_t* base, int lane) {
  const uint64_t at = base == nullptr ? warp.local_base(lane) : base[lane];
  const uint64_t sum = at + static_cast<uint64_t>(instruction.offset);
  return instruction.narrow ? sum & 0xffffffff : sum;
}

inline const uint64_t* Base(Warp& warp, const Instruction& instruction) {
  return instruction.in[0] == kNoSlot ? nullptr : warp.Read(instruction.in[0]);
}

inline std::byte* Find(Warp& warp, const Grid& grid, const Instruction& instruction, uint64_t address, uint64_t bytes,
                       bool write, int lane) {
  const Range& range = grid.ranges[0];
  const uint64_t offset = address - range.begin;
  const uint64_t size = range.end - range.begin;
  const Place place = static_cast<Place>(instruction.mode);
  if (place <= Place::kGlobal && offset < size && size - offset >= bytes && (address & (bytes - 1)) == 0 &&
      (!write || range.writable)) {
    return range.host + offset;
  }
  return warp.Find(place, address, bytes, bytes, write, lane);
}

template <typename T, bool kAtomic>
inline T ReadValue(std::byte* from) {
  if constexpr (kAtomic) return std::atomic_ref<T>(*reinterpret_cast<T*>(from)).load();
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T, bool kAtomic>
inline void WriteValue(std::byte* to, T value) {
  if constexpr (kAtomic) {
    std::atomic_ref<T>(*reinterpret_cast<T*>(to)).store(value);
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

/// Extends a value to a register that may be wider than the value's type.
inline uint64_t Extend(const Instruction& instruction, uint64_t value) {
  if (instruction.extend == 0) return value;
  return ZeroExtend(SignExtend(value, instruction.extend), instruction.register_bits);
}

template <typename T, bool kAtomic>
void Load(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  if (kAtomic) warp.Poll(kLookCost);
  const Grid& grid = warp.grid();
  const uint64_t* base = Base(warp, instruction);
  const uint64_t bytes = sizeof(T) * instruction.count;
  if (instruction.count == 1) {
    uint64_t* to = warp.Write(instruction.to);
    ForLanes(lanes, [&](int lane) {
      const uint64_t address = Address(warp, instruction, base, lane);
      to[lane] = Extend(instruction, ReadValue<T, kAtomic>(Find(warp, grid, instruction, address, bytes, false, lane)));
    });
    return;
  }
  const std::vector<Slot>& list = grid.code.lists[instruction.target];
  ForLanes(lanes, [&](int lane) {
    const uint64_t address = Address(warp, instruction, base, lane);
    std::byte* from = Find(warp, grid, instruction, address, bytes, false, lane);
    for (size_t i = 0; i < list.size(); ++i) {
      warp.Write(list[i])[lane] = Extend(instruction, ReadValue<T, kAtomic>(from + i * sizeof(T)));
    }
  });
}

template <typename T, bool kAtomic>
void Store(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const Grid& grid = warp.grid();
  const uint64_t* base = Base(warp, instruction);
  const uint64_t bytes = sizeof(T) * instruction.count;
  if (instruction.count == 1) {
    const uint64_t* value = warp.Read(instruction.in[1]);
    ForLanes(lanes, [&](int lane) {
      const uint64_t address = Address(warp, instruction, base, lane);
      WriteValue<T, kAtomic>(Find(warp, grid, instruction, address, bytes, true, lane), static_cast<T>(value[lane]));
    });
    return;
  }
  const std::vector<Slot>& list = grid.code.lists[instruction.target];
  ForLanes(lanes, [&](int lane) {
    const uint64_t address = Address(warp, instruction, base, lane);
    std::byte* to = Find(warp, grid, instruction, address, bytes, true, lane);
    for (size_t i = 0; i < list.size(); ++i) {
      WriteValue<T, kAtomic>(to + i * sizeof(T), static_cast<T>(warp.Read(list[i])[lane]));
    }
  });
}

template <typename T>
T NewValue(const Instruction& instruction, T old, uint64_t b, uint64_t c) {
  const uint64_t count = static_cast<T>(b);
  switch (static_cast<AtomicKind>(instruction.kind)) {
    case AtomicKind::kExchange:
      return static_cast<T>(b);
    case AtomicKind::kCompareAndSwap:
      return old == static_cast<T>(b) ? static_cast<T>(c) : old;
    case AtomicKind::kIncrement:
      return old >= count ? T{0} : static_cast<T>(old + 1);
    case AtomicKind::kDecrement:
      return old == 0 || old > count ? static_cast<T>(count) : static_cast<T>(old - 1);
    case AtomicKind::kCompute:
      break;
  }
  return static_cast<T>(instruction.operation.value.lane(instruction.operation.how, old, b, 0, 0));
}

template <typename T>
T Change(const Instruction& instruction, std::byte* at, uint64_t b, uint64_t c) {
  std::atomic_ref<T> value(*reinterpret_cast<T*>(at));
  T old = value.load();
  while (!value.compare_exchange_weak(old, NewValue<T>(instruction, old, b, c))) {
  }
  return old;
}

template <typename T>
void Atomic(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  const bool looks = instruction.kind == static_cast<uint8_t>(AtomicKind::kExchange) ||
                     instruction.kind == static_cast<uint8_t>(AtomicKind::kCompareAndSwap);
  warp.Spend(kAtomicCost);
  if (looks) warp.Poll(kLookCost);
  const Grid& grid = warp.grid();
  const uint64_t* base = Base(warp, instruction);
  const uint64_t bytes = sizeof(T) * instruction.count;
  const uint64_t* b = instruction.count == 1 ? warp.Read(instruction.in[1]) : nullptr;
  const uint64_t* c = instruction.in[2] == kNoSlot ? nullptr : warp.Read(instruction.in[2]);
  ForLanes(lanes, [&](int lane) {
    const uint64_t address = Address(warp, instruction, base, lane);
    if (address >> kWindowShift == kLocalWindow >> kWindowShift) {
      warp.Raise(Fault::kInvalidAddressSpace, "an atomic operation on local memory", lane);
    }
    std::byte* at = Find(warp, grid, instruction, address, bytes, true, lane);
    if (instruction.count == 1) {
      const T old = Change<T>(instruction, at, b[lane], c == nullptr ? 0 : c[lane]);
      if (instruction.to != kNoSlot) warp.Write(instruction.to)[lane] = old;
      return;
    }
    // Changes each element by itself (PTX ISA, atom: "vector ... guaranteed for each of the elements"). The first half
    // of the list receives the old values.
    const std::vector<Slot>& list = grid.code.lists[instruction.target];
    for (size_t i = 0; i < instruction.count; ++i) {
      const T old = Change<T>(instruction, at + i * sizeof(T), warp.Read(list[instruction.count + i])[lane], 0);
      if (list[i] != kNoSlot) warp.Write(list[i])[lane] = old;
    }
  });
}

}  // namespace

Handler LoadHandler(int bytes, bool atomic) {
  switch (bytes) {
    case 1:
      return atomic ? Load<uint8_t, true> : Load<uint8_t, false>;
    case 2:
      return atomic ? Load<uint16_t, true> : Load<uint16_t, false>;
    case 4:
      return atomic ? Load<uint32_t, true> : Load<uint32_t, false>;
    default:
      return atomic ? Load<uint64_t, true> : Load<uint64_t, false>;
  }
}

Handler StoreHandler(int bytes, bool atomic) {
  switch (bytes) {
    case 1:
      return atomic ? Store<uint8_t, true> : Store<uint8_t, false>;
    case 2:
      return atomic ? Store<uint16_t, true> : Store<uint16_t, false>;
    case 4:
      return atomic ? Store<uint32_t, true> : Store<uint32_t, false>;
    default:
      return atomic ? Store<uint64_t, true> : Store<uint64_t, false>;
  }
}

Handler AtomicHandler(int bytes) {
  return bytes == 2 ? Atomic<uint16_t> : bytes == 4 ? Atomic<uint32_t> : Atomic<uint64_t>;
}

void RunFence(Warp& warp, const Instruction&, uint32_t) {
  fence_word.fetch_add(1);
  warp.Spend(kAtomicCost);
}

void RunCopyAsync(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const uint64_t* to = warp.Read(instruction.in[0]);
  const uint64_t* from = warp.Read(instruction.in[1]);
  const uint64_t* size = instruction.in[2] == kNoSlot ? nullptr : warp.Read(instruction.in[2]);
  const uint64_t bytes = instruction.bytes;
  ForLanes(lanes, [&](int lane) {
    const uint64_t shared = to[lane] + static_cast<uint64_t>(instruction.offset);
    const uint64_t global = from[lane] + static_cast<uint64_t>(instruction.second_offset);
    const uint64_t taken = size == nullptr ? bytes : size[lane] & 0xffffffff;
    if (taken > bytes) warp.Raise(Fault::kIllegalInstruction, "cp.async of more bytes than it copies", lane);
    std::byte* target =
        warp.Find(Place::kShared, instruction.narrow ? shared & 0xffffffff : shared, bytes, bytes, true, lane);
    std::memset(target, 0, bytes);
    if (taken != 0) std::memcpy(target, warp.Find(Place::kGlobal, global, taken, 1, false, lane), taken);
    if ((global & (bytes - 1)) != 0) warp.Raise(Fault::kMisalignedAddress, "cp.async from a misaligned address", lane);
  });
}

}  // namespace callout::software_gpu::ptx
