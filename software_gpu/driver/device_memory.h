// SPDX-License-Identifier: Apache-2.0
//
// Memory of the devices: an address that nobody may touch, and beside it one for those who are the device.
#pragma once

#include <cstddef>
#include <map>

#include "driver/cuda_types.h"

namespace callout::software_gpu {

/// Guarded by the mutex of State.
class DeviceMemoryMap {
 public:
  /// Zero if there is none left.
  CUdeviceptr Allocate(CUcontext context, size_t bytes, bool counted = true);
  /// False if it is not the address of an allocation.
  bool Free(CUdeviceptr address);
  void FreeAllOf(CUcontext context);

  struct Place {
    char* memory = nullptr;  ///< Null if not all of it lies in one allocation.
    CUcontext context = nullptr;
  };
  Place Find(CUdeviceptr address, size_t bytes) const;

  /// Allocations that were counted.
  int64_t count() const { return count_; }
  size_t used(CUcontext context) const;
  static constexpr size_t kCapacity = size_t{16} << 30;

 private:
  struct Allocation {
    CUcontext context;
    size_t bytes;
    char* memory;
    size_t mapped;
    bool counted;
  };
  void Unmap(CUdeviceptr address, const Allocation& allocation);

  std::map<CUdeviceptr, Allocation> allocations_;
  int64_t count_ = 0;
};

}  // namespace callout::software_gpu
