// SPDX-License-Identifier: Apache-2.0
//
// A range of addresses that nobody may touch, and its twin that may be.
#pragma once

#include <cstddef>
#include <map>

namespace callout::software_gpu {

/// Not thread-safe. Its addresses are never given back.
class Arena {
 public:
  explicit Arena(size_t capacity);

  static constexpr size_t kAlignment = 512;

  /// Null if there is no room.
  char* Allocate(size_t bytes, size_t alignment = kAlignment);
  /// What Allocate() gave. Its pages are given back to the system.
  void Free(char* address);
  /// Where the memory may be touched.
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
