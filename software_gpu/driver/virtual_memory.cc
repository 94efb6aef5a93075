// SPDX-License-Identifier: Apache-2.0
//
// Reserved addresses, physical memory, and its mapping to addresses (Driver API, Virtual Memory Management). Physical
// memory is a file, so that two addresses can be the same memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "driver/enqueue.h"

namespace callout::software_gpu {

struct PhysicalMemory {
  PhysicalMemory(int its_file, size_t its_bytes, const CUmemAllocationProp& its_properties)
      : file(its_file), bytes(its_bytes), properties(its_properties) {}
  ~PhysicalMemory() { close(file); }
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  int file;
  size_t bytes;
  CUmemAllocationProp properties;
  int handles = 1;
};

namespace {

constexpr size_t kGranularity = size_t{2} << 20;  // as on an H100

bool IsGranular(uint64_t value) { return value % kGranularity == 0; }

char* ReserveAddresses(size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

// Returns the reservation that holds the whole range.
std::map<CUdeviceptr, Reservation>::iterator FindReservation(State& state, CUdeviceptr address, size_t bytes) {
  auto next = state.reservations.upper_bound(address);
  if (next == state.reservations.begin()) return state.reservations.end();
  --next;
  const size_t offset = address - next->first;
  return offset <= next->second.bytes && bytes <= next->second.bytes - offset ? next : state.reservations.end();
}

CUresult CheckProperties(const State& state, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  return state.HasDevice(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

void WaitForDevices(Call& call) {
  std::vector<std::shared_ptr<Queue>> queues;
  for (const auto& context : call.state().contexts) {
    for (auto& queue : PendingQueues(call.state(), context.get())) queues.push_back(std::move(queue));
  }
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  call.Lock();
}

}  // namespace

bool IsReserved(State& state, CUdeviceptr address) {
  return FindReservation(state, address, 1) != state.reservations.end();
}

void ForgetVirtualMemory(State& state) {
  for (const auto& [begin, reservation] : state.reservations) {
    for (size_t offset = 0; offset < reservation.bytes; offset += kGranularity) {
      state.memory.Remove(begin + offset, MemoryKind::kMapped);
    }
    munmap(reservation.twin, reservation.bytes);
  }
  state.reservations.clear();
  state.physical.clear();
}

extern "C" CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                                  CUmemAllocationGranularity_flags) {
  const Call call("cuMemGetAllocationGranularity", kInitialized);
  if (call.refused()) return call.result();
  if (const CUresult wrong = CheckProperties(call.state(), properties); wrong != CUDA_SUCCESS) return wrong;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                                        unsigned long long flags) {
  const Call call("cuMemAddressReserve", kInitialized, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (bytes == 0 || !IsGranular(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t aligned = std::max(alignment, kGranularity);
  char* const made = ReserveAddresses(bytes + aligned);
  char* const twin = ReserveAddresses(bytes);
  if (made == nullptr || twin == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = (reinterpret_cast<CUdeviceptr>(made) + aligned - 1) / aligned * aligned;
  call.state().reservations[*address] = {bytes, twin};
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const Call call("cuMemAddressFree", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  const auto found = state.reservations.find(address);
  if (found == state.reservations.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  for (CUdeviceptr at = address; at < address + bytes; at += kGranularity) {
    if (state.memory.RangeAt(at).bytes != 0) return CUDA_ERROR_INVALID_VALUE;  // still mapped
  }
  // The addresses stay reserved, so that nothing else is placed there; their pages cost nothing.
  munmap(found->second.twin, bytes);
  state.reservations.erase(found);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                const CUmemAllocationProp* properties, unsigned long long flags) {
  const Call call("cuMemCreate", kInitialized | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  State& state = call.state();
  if (bytes == 0 || !IsGranular(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult wrong = CheckProperties(state, properties); wrong != CUDA_SUCCESS) return wrong;
  if (bytes > MemoryMap::kCapacity) return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = memfd_create("software_gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto made = std::make_shared<PhysicalMemory>(file, bytes, *properties);
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(made.get());
  state.physical[*handle] = made;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call("cuMemRelease", kInitialized);
  if (call.refused()) return call.result();
  const auto found = call.state().physical.find(handle);
  if (found == call.state().physical.end() || found->second->handles == 0) return CUDA_ERROR_INVALID_VALUE;
  // Mapped memory stays valid, and its handle can be retained again from an address.
  if (--found->second->handles == 0 && found->second.use_count() == 1) call.state().physical.erase(found);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                             unsigned long long flags) {
  const Call call("cuMemMap", kInitialized, std::to_string(bytes));
  if (call.refused()) return call.result();
  State& state = call.state();
  const auto physical = state.physical.find(handle);
  const auto reservation = FindReservation(state, address, bytes);
  if (physical == state.physical.end() || physical->second->handles == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (reservation == state.reservations.end() || bytes == 0 || !IsGranular(bytes) || !IsGranular(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Driver API, cuMemMap: the offset must be zero.
  if (offset != 0 || bytes > physical->second->bytes) return CUDA_ERROR_INVALID_VALUE;
  MemoryRange range{.begin = address, .bytes = bytes, .kind = MemoryKind::kMapped};
  range.host = reservation->second.twin + (address - reservation->first);
  range.device = physical->second->properties.location.id;
  range.physical = physical->second;
  if (!state.memory.Add(range)) return CUDA_ERROR_INVALID_VALUE;
  void* const at = mmap(range.host, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->second->file, 0);
  return at != MAP_FAILED ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

extern "C" CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  Call call("cuMemUnmap", kInitialized | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  State& state = call.state();
  for (CUdeviceptr at = address; at < address + bytes;) {
    const MemoryRange range = state.memory.RangeAt(at);
    if (range.kind != MemoryKind::kMapped || range.begin != at) return CUDA_ERROR_INVALID_VALUE;
    at += range.bytes;
  }
  WaitForDevices(call);
  for (CUdeviceptr at = address; at < address + bytes;) {
    const MemoryRange range = state.memory.Remove(at, MemoryKind::kMapped);
    if (range.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    mmap(range.host, range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (range.physical->handles == 0) {
      std::erase_if(state.physical,
                    [&](const auto& entry) { return entry.second == range.physical && entry.second.use_count() == 2; });
    }
    at += range.bytes;
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  const Call call("cuMemSetAccess", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!state.HasDevice(access[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool readable = (access[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ) != 0;
    const bool writable = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!state.memory.SetAccess(address, bytes, access[i].location.id, readable, writable)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  const Call call("cuMemGetAccess", kInitialized);
  if (call.refused()) return call.result();
  const MemoryRange range = call.state().memory.RangeAt(address);
  if (range.kind != MemoryKind::kMapped || range.bytes == 0 || !call.state().HasDevice(location->id)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = range.WritableBy(location->id)   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : range.ReadableBy(location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                            : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Call call("cuMemRetainAllocationHandle", kInitialized);
  if (call.refused()) return call.result();
  const MemoryRange range = call.state().memory.RangeAt(reinterpret_cast<CUdeviceptr>(address));
  if (range.physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++range.physical->handles;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(range.physical.get());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                           CUmemGenericAllocationHandle handle) {
  const Call call("cuMemGetAllocationPropertiesFromHandle", kInitialized);
  if (call.refused()) return call.result();
  const auto found = call.state().physical.find(handle);
  if (found == call.state().physical.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = found->second->properties;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
