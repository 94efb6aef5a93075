// SPDX-License-Identifier: Apache-2.0
//
// An array on the stack up to N elements, on the heap beyond N: an ordinary call allocates nothing.
#pragma once

#include <cstddef>
#include <memory>

namespace callout::internal {

template <typename T, size_t N>
class SmallBuffer {
 public:
  explicit SmallBuffer(size_t size) : size_(size) {
    if (size > N) heap_ = std::make_unique<T[]>(size);
  }
  T* data() { return heap_ ? heap_.get() : stack_; }
  const T* data() const { return heap_ ? heap_.get() : stack_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }

 private:
  size_t size_;
  std::unique_ptr<T[]> heap_;
  T stack_[N];
};

}  // namespace callout::internal
