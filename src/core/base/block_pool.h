// SPDX-License-Identifier: Apache-2.0
//
// Memory for copies of large buffers. A fresh megabyte from malloc costs more in page faults than its copy does, so
// free blocks are kept in size classes (four for each power of two) and reused. The memory that the pool keeps is
// bounded.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "callout/export.h"

namespace callout::internal {

/// Returns the smallest class whose blocks have room for `bytes`. Class 0 has blocks of 2^min_shift bytes.
constexpr size_t SizeClassFor(size_t bytes, size_t min_shift) {
  if (bytes <= (size_t{1} << min_shift)) return 0;
  const size_t shift = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;  // 2^shift < bytes <= 2^(shift+1)
  const size_t base = size_t{1} << shift;
  const size_t quarter = (bytes - base + base / 4 - 1) / (base / 4);
  return (shift - min_shift) * 4 + quarter;
}

/// Returns the size of the blocks of a class, in bytes.
constexpr size_t SizeClassBytes(size_t size_class, size_t min_shift) {
  const size_t base = size_t{1} << (min_shift + size_class / 4);
  return base + (size_class % 4) * (base / 4);
}

/// Returns 64-byte aligned memory of at least `bytes`, or null if no memory is left. Thread-safe. GIL not needed.
[[nodiscard]] CALLOUT_EXPORT void* AllocateBlock(size_t bytes);

/// Returns `block` to the pool. Takes ownership of `block`, which came from AllocateBlock; null is ignored.
/// Thread-safe. GIL not needed.
CALLOUT_EXPORT void FreeBlock(void* block);

/// Allocates from the pool without counting a live block, for queues, which keep their memory. Thread-safe.
[[nodiscard]] void* AllocatePooled(size_t bytes);
void FreePooled(void* memory);

/// Returns the bytes that the pool keeps for reuse. Thread-safe.
CALLOUT_EXPORT size_t PooledBytes();

/// Returns the kept memory to the system, and returns how many bytes that was. Thread-safe.
CALLOUT_EXPORT size_t TrimBlockPool();

struct BlockDeleter {
  void operator()(void* block) const { FreeBlock(block); }
};

}  // namespace callout::internal
