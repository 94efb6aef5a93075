// SPDX-License-Identifier: Apache-2.0
//
// All memory that a driver knows of. A device's has an address that nobody may touch, and beside it, at a distance that
// is the same for all of the device, one for those who are the device. The host's is where it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "driver/cuda_types.h"

namespace callout::software_gpu {

enum class MemoryKind {
  kDevice,
  kMapped,      ///< Of cuMemMap: a physical allocation at an address that was reserved.
  kPinned,      ///< Of cuMemHostAlloc.
  kRegistered,  ///< Of cuMemHostRegister.
  kManaged,
};

struct PhysicalMemory;

/// Memory that was allocated or mapped at once.
struct MemoryRange {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  char* host = nullptr;  ///< Where it may be touched. Null: there is none.
  MemoryKind kind = MemoryKind::kDevice;
  CUcontext context = nullptr;  ///< Null for kMapped.
  int device = 0;
  unsigned int flags = 0;  ///< Of kPinned and kRegistered.
  uint64_t id = 0;
  uint64_t readers = 0;  ///< Of kMapped: a bit for each device that may read it.
  uint64_t writers = 0;
  bool counted = true;
  CUmemoryPool pool = nullptr;                         ///< Of memory in the order of a stream.
  std::shared_ptr<PhysicalMemory> physical = nullptr;  ///< Of kMapped.

  /// As cuMemSetAccess has said; all other memory is for every device.
  bool ReadableBy(int its_device) const { return kind != MemoryKind::kMapped || (readers >> its_device & 1) != 0; }
  bool WritableBy(int its_device) const { return kind != MemoryKind::kMapped || (writers >> its_device & 1) != 0; }
};

/// A reserved range of addresses with its accessible twin. **Thread-safe.** Never given back.
class Arena;

/// **Thread-safe.**
class MemoryMap {
 public:
  MemoryMap();
  ~MemoryMap();

  /// A device's memory: zero if there is none left. The first kFillLimit bytes are filled with kSoftwareGpuFill, the
  /// rest holds zeros or what was there: to fill gigabytes is to commit them.
  CUdeviceptr Allocate(CUcontext context, size_t bytes, bool counted = true, CUmemoryPool pool = nullptr);
  /// False if it is not the address of an allocation of a device.
  bool Free(CUdeviceptr address);
  void FreeAllOf(CUcontext context);

  /// Pinned, registered, managed and mapped memory. False if it overlaps with other such memory.
  bool Add(const MemoryRange& range);
  /// A range that Add() was given, by its beginning and kind. One without host memory if there is none.
  MemoryRange Remove(CUdeviceptr begin, MemoryKind kind);
  /// Pinned, registered and managed memory of the context. What was allocated is for the caller to free.
  std::vector<void*> RemoveHostOf(CUcontext context);
  /// Sets what a device may do with mapped memory. False if it is not all mapped.
  bool SetAccess(CUdeviceptr begin, size_t bytes, int device, bool readable, bool writable);

  struct Place {
    char* memory = nullptr;  ///< Null if not all of it lies in one allocation.
    CUcontext context = nullptr;
  };
  /// Memory of a device, mapped memory that some device may read among it. Mapped ranges side by side are one.
  Place Find(CUdeviceptr address, size_t bytes) const;
  /// Memory of the host.
  MemoryRange FindHost(CUdeviceptr address, size_t bytes) const;
  /// True if it is an address of a device's own, whether or not something is there now.
  bool IsOfDevice(CUdeviceptr address) const;
  /// Whatever holds the address.
  MemoryRange RangeAt(CUdeviceptr address) const;

  /// Allocations of a device that were counted.
  int64_t count() const;
  int64_t count(MemoryKind kind) const;
  size_t used(CUcontext context) const;

  /// What a pool's memory comes to, now and at most.
  struct PoolUse {
    size_t now = 0;
    size_t most = 0;
  };
  PoolUse used(CUmemoryPool pool) const;
  /// The most is what it is now.
  void ForgetMost(CUmemoryPool pool);
  /// The pool's memory is nobody's from now on.
  void Disown(CUmemoryPool pool);
  static constexpr size_t kCapacity = size_t{16} << 30;
  static constexpr size_t kFillLimit = size_t{1} << 20;

 private:
  const MemoryRange* At(CUdeviceptr address) const;
  void Release(const MemoryRange& range);

  mutable std::shared_mutex mutex_;
  std::map<CUdeviceptr, MemoryRange> ranges_;
  std::map<int, std::unique_ptr<Arena>> arenas_;  // of devices
  std::map<CUcontext, size_t> used_;
  std::map<CUmemoryPool, PoolUse> pools_;
  uint64_t ids_ = 0;
};

}  // namespace callout::software_gpu
