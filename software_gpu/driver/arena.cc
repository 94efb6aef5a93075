// SPDX-License-Identifier: Apache-2.0
#include "driver/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace callout::software_gpu {
namespace {

char* Reserve(size_t bytes, int protection) {
  void* const at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    std::perror("software GPU: no addresses for a device's memory");
    std::abort();
  }
  return static_cast<char*>(at);
}

size_t Up(size_t value, size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace

Arena::Arena(size_t capacity)
    : capacity_(capacity),
      base_(Reserve(capacity, PROT_NONE)),
      distance_(Reserve(capacity, PROT_READ | PROT_WRITE) - base_) {
  free_[base_] = capacity_;
}

char* Arena::Allocate(size_t bytes, size_t alignment) {
  const size_t needed = Up(bytes, kAlignment);
  for (const auto& [begin, size] : free_) {
    auto* const start = reinterpret_cast<char*>(Up(reinterpret_cast<uintptr_t>(begin), alignment));
    const auto skipped = static_cast<size_t>(start - begin);
    if (skipped + needed > size) continue;
    char* const end = begin + size;
    char* const first = begin;
    free_.erase(first);
    if (skipped != 0) free_[first] = skipped;
    if (start + needed < end) free_[start + needed] = static_cast<size_t>(end - start) - needed;
    used_[start] = needed;
    return start;
  }
  return nullptr;
}

void Arena::Free(char* address) {
  const auto found = used_.find(address);
  size_t size = found->second;
  used_.erase(found);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const first = reinterpret_cast<char*>(Up(reinterpret_cast<uintptr_t>(TwinOf(address)), page));
  auto* const last = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(TwinOf(address) + size) / page * page);
  if (first < last) madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED);
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += size;
      return;
    }
  }
  free_[address] = size;
}

}  // namespace callout::software_gpu
