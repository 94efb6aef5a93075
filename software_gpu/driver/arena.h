// SPDX-License-Identifier: Apache-2.0
//
// A range of addresses that nobody may touch, and a twin range through which the same memory is accessible.
#pragma once

#include <cstddef>
#include <map>

namespace callout::software_gpu {

/// An arena is not thread-safe. It never gives its range of addresses back to the system.
class Arena {
 public:
  explicit Arena(size_t capacity);

  static constexpr size_t kAlignment = 512;

  /// Returns null if there is no room.
  char* Allocate(size_t bytes, size_t alignment = kAlignment);
  /// Frees memory of Allocate(). The system gets the pages back.
  void Free(char* address);
  /// Returns the accessible address of the memory at `address`.
  char* TwinOf(const char* address) const { return const_cast<char*>(address) + distance_; }
  bool Contains(const char* address) const { return address >= base_ && address < base_ + capacity_; }

 private:
  size_t capacity_;
  char* base_ = nullptr;
  ptrdiff_t distance_ = 0;
  std::map<char*, size_t> free_;
  std::map<char*, size_t> used_;
};

}  // namespace callout::software_gpu
