// SPDX-License-Identifier: Apache-2.0
//
// All memory that a driver knows. Device memory has an address that nobody may touch and, at a distance that is fixed
// for the device, an address for code that plays the device. Host memory has one address.
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
  kMapped,      ///< Memory of cuMemMap: a physical allocation at a reserved address.
  kPinned,      ///< Memory of cuMemHostAlloc.
  kRegistered,  ///< Memory of cuMemHostRegister.
  kManaged,
};

struct PhysicalMemory;

/// One allocation or one mapping.
struct MemoryRange {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  char* host = nullptr;  ///< The accessible address. Null if there is none.
  MemoryKind kind = MemoryKind::kDevice;
  CUcontext context = nullptr;  ///< Null for kMapped.
  int device = 0;
  unsigned int flags = 0;  ///< Flags of kPinned and kRegistered.
  uint64_t id = 0;
  uint64_t readers = 0;  ///< For kMapped: a bit for each device that may read it.
  uint64_t writers = 0;
  bool counted = true;
  CUmemoryPool pool = nullptr;                         ///< The pool of stream-ordered memory.
  std::shared_ptr<PhysicalMemory> physical = nullptr;  ///< For kMapped.

  /// Returns whether cuMemSetAccess has granted the access. All other memory is accessible to every device.
  bool ReadableBy(int its_device) const { return kind != MemoryKind::kMapped || (readers >> its_device & 1) != 0; }
  bool WritableBy(int its_device) const { return kind != MemoryKind::kMapped || (writers >> its_device & 1) != 0; }
};

/// A reserved range of addresses with its accessible twin. **Thread-safe.** The addresses are never given back.
class Arena;

/// **Thread-safe.**
class MemoryMap {
 public:
  MemoryMap();
  ~MemoryMap();

  /// Allocates a device's memory; returns zero if there is none left. The first kFillLimit bytes are filled with
  /// kSoftwareGpuFill; the rest holds zeros or older contents, because filling gigabytes would commit them.
  CUdeviceptr Allocate(CUcontext context, size_t bytes, bool counted = true, CUmemoryPool pool = nullptr);
  /// Returns false if `address` is not the address of a device's allocation.
  bool Free(CUdeviceptr address);
  void FreeAllOf(CUcontext context);

  /// Adds pinned, registered, managed or mapped memory. Returns false if it overlaps with other such memory.
  bool Add(const MemoryRange& range);
  /// Removes and returns a range that Add() was given, by its beginning and kind. Returns a range without host memory
  /// if there is none.
  MemoryRange Remove(CUdeviceptr begin, MemoryKind kind);
  /// Removes pinned, registered and managed memory of the context. Returns the memory that the caller must free.
  std::vector<void*> RemoveHostOf(CUcontext context);
  /// Sets the access of a device to mapped memory. Returns false if the range is not mapped as a whole.
  bool SetAccess(CUdeviceptr begin, size_t bytes, int device, bool readable, bool writable);

  struct Place {
    char* memory = nullptr;  ///< Null unless one allocation holds the whole range.
    CUcontext context = nullptr;
  };
  /// Finds memory of a device, including mapped memory that some device may read. Adjacent mapped ranges count as one.
  Place Find(CUdeviceptr address, size_t bytes) const;
  /// Finds memory of the host.
  MemoryRange FindHost(CUdeviceptr address, size_t bytes) const;
  /// True if the address is in a device's arena, whether or not it is allocated now.
  bool IsOfDevice(CUdeviceptr address) const;
  /// Returns the range that holds the address.
  MemoryRange RangeAt(CUdeviceptr address) const;

  /// The number of a device's counted allocations.
  int64_t count() const;
  int64_t count(MemoryKind kind) const;
  size_t used(CUcontext context) const;

  /// The memory that a pool uses, now and at most.
  struct PoolUse {
    size_t now = 0;
    size_t most = 0;
  };
  PoolUse used(CUmemoryPool pool) const;
  /// Sets the maximum to the current use.
  void ForgetMost(CUmemoryPool pool);
  /// Makes the pool's memory belong to no pool.
  void Disown(CUmemoryPool pool);
  static constexpr size_t kCapacity = size_t{16} << 30;
  static constexpr size_t kFillLimit = size_t{1} << 20;

 private:
  const MemoryRange* At(CUdeviceptr address) const;
  void Release(const MemoryRange& range);

  mutable std::shared_mutex mutex_;
  std::map<CUdeviceptr, MemoryRange> ranges_;
  std::map<int, std::unique_ptr<Arena>> arenas_;  // by device
  std::map<CUcontext, size_t> used_;
  std::map<CUmemoryPool, PoolUse> pools_;
  uint64_t ids_ = 0;
};

}  // namespace callout::software_gpu
