// SPDX-License-Identifier: Apache-2.0
#include "core/base/block_pool.h"

#include <cstdlib>
#include <utility>

#include "core/base/fork_mutex.h"
#include "core/base/live_count.h"

namespace callout::internal {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMinShift = 10;  // smallest class: 1 KB
constexpr size_t kMaxShift = 28;  // larger blocks go to malloc
constexpr size_t kClasses = (kMaxShift - kMinShift) * 4 + 1;
constexpr size_t kMaxPooledBytes = size_t{256} << 20;
constexpr size_t kUnpooled = ~size_t{0};
constexpr size_t kMaxBytes = ~size_t{0} >> 1;

// The header in front of each block, in one unit of alignment.
struct Header {
  size_t size_class;
  size_t bytes;
  Header* next = nullptr;  // next free block of the class
};
static_assert(sizeof(Header) <= kAlignment);

size_t ClassBytes(size_t size_class) { return SizeClassBytes(size_class, kMinShift); }

size_t ClassFor(size_t bytes) { return bytes > (size_t{1} << kMaxShift) ? kUnpooled : SizeClassFor(bytes, kMinShift); }

struct Pool {
  ForkMutex mutex;
  Header* free[kClasses] CALLOUT_GUARDED_BY(mutex) = {};
  size_t bytes CALLOUT_GUARDED_BY(mutex) = 0;
};

Pool& GetPool() {
  static Pool* const pool = new Pool;  // leaked: blocks come back during static destruction
  return *pool;
}

Header* TakeFree(size_t size_class) {
  Pool& pool = GetPool();
  MutexLock lock(pool.mutex);
  Header* const header = pool.free[size_class];
  if (header == nullptr) return nullptr;
  pool.free[size_class] = header->next;
  pool.bytes -= header->bytes;
  return header;
}

}  // namespace

void* AllocatePooled(size_t bytes) {
  const size_t size_class = ClassFor(bytes);
  Header* header = size_class == kUnpooled ? nullptr : TakeFree(size_class);
  if (header == nullptr) {
    const size_t usable = size_class == kUnpooled ? bytes : ClassBytes(size_class);
    if (usable > kMaxBytes) return nullptr;
    const size_t total = (usable + 2 * kAlignment - 1) / kAlignment * kAlignment;
    header = static_cast<Header*>(std::aligned_alloc(kAlignment, total));
    if (header == nullptr && TrimBlockPool() > 0) header = static_cast<Header*>(std::aligned_alloc(kAlignment, total));
    if (header == nullptr) return nullptr;
    *header = {size_class, usable};
  }
  return reinterpret_cast<char*>(header) + kAlignment;
}

void* AllocateBlock(size_t bytes) {
  void* block = AllocatePooled(bytes);
  if (block != nullptr) [[likely]]
    LiveCounter(LiveKind::kBlock).fetch_add(1, std::memory_order_relaxed);
  return block;
}

void FreeBlock(void* block) {
  if (block == nullptr) return;
  LiveCounter(LiveKind::kBlock).fetch_sub(1, std::memory_order_relaxed);
  FreePooled(block);
}

void FreePooled(void* memory) {
  if (memory == nullptr) return;
  auto* header = reinterpret_cast<Header*>(static_cast<char*>(memory) - kAlignment);
  if (header->size_class != kUnpooled) {
    Pool& pool = GetPool();
    MutexLock lock(pool.mutex);
    if (pool.bytes + header->bytes <= kMaxPooledBytes) {
      header->next = std::exchange(pool.free[header->size_class], header);
      pool.bytes += header->bytes;
      return;
    }
  }
  std::free(header);
}

size_t PooledBytes() {
  Pool& pool = GetPool();
  MutexLock lock(pool.mutex);
  return pool.bytes;
}

size_t TrimBlockPool() {
  Pool& pool = GetPool();
  MutexLock lock(pool.mutex);
  for (Header*& first : pool.free) {
    while (first != nullptr) std::free(std::exchange(first, first->next));
  }
  return std::exchange(pool.bytes, 0);
}

}  // namespace callout::internal
