// SPDX-License-Identifier: Apache-2.0
#include "driver/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "driver/software_gpu.h"

namespace callout::software_gpu {
namespace {

void* MapShared(int fd, size_t bytes, int protection) {
  void* at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

CUdeviceptr DeviceMemoryMap::Allocate(CUcontext context, size_t bytes, bool counted) {
  if (bytes > kCapacity || used(context) + bytes > kCapacity) return 0;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t mapped = (bytes + page - 1) / page * page;
  const int fd = memfd_create("software_gpu", MFD_CLOEXEC);
  if (fd < 0) return 0;
  void* forbidden = nullptr;
  void* memory = nullptr;
  if (ftruncate(fd, static_cast<off_t>(mapped)) == 0) {
    forbidden = MapShared(fd, mapped, PROT_NONE);
    memory = MapShared(fd, mapped, PROT_READ | PROT_WRITE);
  }
  close(fd);
  if (forbidden == nullptr || memory == nullptr) {
    if (forbidden != nullptr) munmap(forbidden, mapped);
    return 0;
  }
  std::memset(memory, kSoftwareGpuFill, bytes);
  const auto address = reinterpret_cast<CUdeviceptr>(forbidden);
  allocations_[address] = {context, bytes, static_cast<char*>(memory), mapped, counted};
  if (counted) ++count_;
  return address;
}

void DeviceMemoryMap::Unmap(CUdeviceptr address, const Allocation& allocation) {
  munmap(reinterpret_cast<void*>(address), allocation.mapped);
  munmap(allocation.memory, allocation.mapped);
  if (allocation.counted) --count_;
}

bool DeviceMemoryMap::Free(CUdeviceptr address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  Unmap(address, found->second);
  allocations_.erase(found);
  return true;
}

void DeviceMemoryMap::FreeAllOf(CUcontext context) {
  for (auto entry = allocations_.begin(); entry != allocations_.end();) {
    if (entry->second.context == context) {
      Unmap(entry->first, entry->second);
      entry = allocations_.erase(entry);
    } else {
      ++entry;
    }
  }
}

DeviceMemoryMap::Place DeviceMemoryMap::Find(CUdeviceptr address, size_t bytes) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return {};
  const auto& [start, allocation] = *--next;
  const size_t offset = address - start;
  if (offset >= allocation.bytes || bytes > allocation.bytes - offset) return {};
  return {allocation.memory + offset, allocation.context};
}

size_t DeviceMemoryMap::used(CUcontext context) const {
  size_t bytes = 0;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.context == context) bytes += allocation.bytes;
  }
  return bytes;
}

}  // namespace callout::software_gpu
