// SPDX-License-Identifier: Apache-2.0
#include "driver/device_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "driver/arena.h"
#include "driver/objects.h"
#include "driver/software_gpu.h"

namespace callout::software_gpu {

namespace {

bool IsAccessible(const MemoryRange& range) { return range.kind == MemoryKind::kMapped && range.readers != 0; }

}  // namespace

MemoryMap::MemoryMap() = default;
MemoryMap::~MemoryMap() = default;

CUdeviceptr MemoryMap::Allocate(CUcontext context, size_t bytes, bool counted, CUmemoryPool pool) {
  MemoryRange range{.bytes = bytes, .context = context, .device = context->device, .counted = counted, .pool = pool};
  const std::unique_lock lock(mutex_);
  size_t& used = used_[context];
  if (bytes > kCapacity || used + bytes > kCapacity) return 0;
  std::unique_ptr<Arena>& arena = arenas_[context->device];
  // Twice the capacity, because freed blocks of other sizes leave gaps.
  if (arena == nullptr) arena = std::make_unique<Arena>(2 * kCapacity);
  char* const address = arena->Allocate(bytes);
  if (address == nullptr) return 0;
  used += bytes;
  range.begin = reinterpret_cast<CUdeviceptr>(address);
  range.host = arena->TwinOf(address);
  range.id = ++ids_;
  std::memset(range.host, kSoftwareGpuFill, std::min(bytes, kFillLimit));
  ranges_[range.begin] = range;
  if (pool != nullptr) {
    PoolUse& use = pools_[pool];
    use.now += bytes;
    use.most = std::max(use.most, use.now);
  }
  return range.begin;
}

void MemoryMap::Release(const MemoryRange& range) {
  used_[range.context] -= range.bytes;
  if (range.pool != nullptr) pools_[range.pool].now -= range.bytes;
  arenas_[range.device]->Free(reinterpret_cast<char*>(range.begin));
}

bool MemoryMap::Free(CUdeviceptr address) {
  const std::unique_lock lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.kind != MemoryKind::kDevice) return false;
  Release(found->second);
  ranges_.erase(found);
  return true;
}

void MemoryMap::FreeAllOf(CUcontext context) {
  const std::unique_lock lock(mutex_);
  for (auto entry = ranges_.begin(); entry != ranges_.end();) {
    if (entry->second.kind == MemoryKind::kDevice && entry->second.context == context) {
      Release(entry->second);
      entry = ranges_.erase(entry);
    } else {
      ++entry;
    }
  }
}

bool MemoryMap::Add(const MemoryRange& range) {
  const std::unique_lock lock(mutex_);
  const auto next = ranges_.lower_bound(range.begin);
  if (next != ranges_.end() && next->first < range.begin + range.bytes) return false;
  if (At(range.begin) != nullptr) return false;
  MemoryRange& added = ranges_[range.begin] = range;
  added.id = ++ids_;
  return true;
}

MemoryRange MemoryMap::Remove(CUdeviceptr begin, MemoryKind kind) {
  const std::unique_lock lock(mutex_);
  const auto found = ranges_.find(begin);
  if (found == ranges_.end() || found->second.kind != kind) return {};
  const MemoryRange range = found->second;
  ranges_.erase(found);
  return range;
}

std::vector<void*> MemoryMap::RemoveHostOf(CUcontext context) {
  const std::unique_lock lock(mutex_);
  std::vector<void*> allocated;
  std::erase_if(ranges_, [&](const auto& entry) {
    const MemoryRange& range = entry.second;
    const bool host = range.kind != MemoryKind::kDevice && range.kind != MemoryKind::kMapped;
    if (!host || range.context != context) return false;
    if (range.kind != MemoryKind::kRegistered) allocated.push_back(range.host);
    return true;
  });
  return allocated;
}

bool MemoryMap::SetAccess(CUdeviceptr begin, size_t bytes, int device, bool readable, bool writable) {
  const std::unique_lock lock(mutex_);
  std::vector<MemoryRange*> ranges;
  for (CUdeviceptr at = begin; at < begin + bytes;) {
    const auto found = ranges_.find(at);
    if (found == ranges_.end() || found->second.kind != MemoryKind::kMapped) return false;
    ranges.push_back(&found->second);
    at += found->second.bytes;
  }
  const uint64_t bit = uint64_t{1} << device;
  for (MemoryRange* range : ranges) {
    range->readers = readable ? range->readers | bit : range->readers & ~bit;
    range->writers = writable ? range->writers | bit : range->writers & ~bit;
  }
  return true;
}

const MemoryRange* MemoryMap::At(CUdeviceptr address) const {
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  const MemoryRange& range = (--next)->second;
  return address - range.begin < range.bytes ? &range : nullptr;
}

MemoryMap::Place MemoryMap::Find(CUdeviceptr address, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const MemoryRange* const range = At(address);
  if (range == nullptr || (range->kind != MemoryKind::kDevice && !IsAccessible(*range))) return {};
  const size_t offset = address - range->begin;
  const Place place{range->host + offset, range->context};
  if (bytes <= range->bytes - offset) return place;
  if (range->kind != MemoryKind::kMapped) return {};
  size_t found = range->bytes - offset;
  for (const MemoryRange* next = At(address + found); found < bytes; next = At(address + found)) {
    if (next == nullptr || !IsAccessible(*next)) return {};
    found += next->bytes;
  }
  return place;
}

MemoryRange MemoryMap::FindHost(CUdeviceptr address, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const MemoryRange* const range = At(address);
  if (range == nullptr || range->kind == MemoryKind::kDevice || range->kind == MemoryKind::kMapped) return {};
  return bytes <= range->bytes - (address - range->begin) ? *range : MemoryRange{};
}

MemoryRange MemoryMap::RangeAt(CUdeviceptr address) const {
  const std::shared_lock lock(mutex_);
  const MemoryRange* const range = At(address);
  return range != nullptr ? *range : MemoryRange{};
}

int64_t MemoryMap::count() const { return count(MemoryKind::kDevice); }

int64_t MemoryMap::count(MemoryKind kind) const {
  const std::shared_lock lock(mutex_);
  return std::count_if(ranges_.begin(), ranges_.end(),
                       [&](const auto& entry) { return entry.second.kind == kind && entry.second.counted; });
}

bool MemoryMap::IsOfDevice(CUdeviceptr address) const {
  const std::shared_lock lock(mutex_);
  return std::any_of(arenas_.begin(), arenas_.end(),
                     [&](const auto& entry) { return entry.second->Contains(reinterpret_cast<const char*>(address)); });
}

MemoryMap::PoolUse MemoryMap::used(CUmemoryPool pool) const {
  const std::shared_lock lock(mutex_);
  const auto found = pools_.find(pool);
  return found != pools_.end() ? found->second : PoolUse{};
}

void MemoryMap::ForgetMost(CUmemoryPool pool) {
  const std::unique_lock lock(mutex_);
  PoolUse& use = pools_[pool];
  use.most = use.now;
}

void MemoryMap::Disown(CUmemoryPool pool) {
  const std::unique_lock lock(mutex_);
  for (auto& [begin, range] : ranges_) {
    if (range.pool == pool) range.pool = nullptr;
  }
  pools_.erase(pool);
}

size_t MemoryMap::used(CUcontext context) const {
  const std::shared_lock lock(mutex_);
  const auto found = used_.find(context);
  return found != used_.end() ? found->second : 0;
}

}  // namespace callout::software_gpu
