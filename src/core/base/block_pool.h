// SPDX-License-Identifier: Apache-2.0
//
// Memory for copies of large buffers. A fresh megabyte from malloc costs more in page faults than its copy does, so
// blocks are kept in size classes (four a power of two) and handed out again; what is kept is bounded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "callout/export.h"

namespace callout::internal {

/// Returns 64-byte aligned memory of at least `bytes`, or null if there is none. Thread-safe. GIL not needed.
[[nodiscard]] CALLOUT_EXPORT void* AllocateBlock(size_t bytes);

/// Takes ownership of `block`, which came from AllocateBlock; null is ignored. Thread-safe. GIL not needed.
CALLOUT_EXPORT void FreeBlock(void* block);

/// The same memory, not counted as a live block: for queues, which keep theirs. Thread-safe.
[[nodiscard]] void* AllocatePooled(size_t bytes);
void FreePooled(void* memory);

/// Bytes that the pool keeps for reuse. Thread-safe.
CALLOUT_EXPORT size_t PooledBytes();

/// Gives the kept memory back to the system. Returns how many bytes that were. Thread-safe.
CALLOUT_EXPORT size_t TrimBlockPool();

struct BlockDeleter {
  void operator()(void* block) const { FreeBlock(block); }
};

}  // namespace callout::internal
