// SPDX-License-Identifier: Apache-2.0
//
// An array that owns the memory and the extents of its callout_buffer.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "core/frame/buffer.h"

namespace callout::internal {

class TestBuffer {
 public:
  /// `bytes` have the layout of XLA's memory.
  TestBuffer(DType dtype, std::vector<int64_t> dims, std::vector<uint8_t> bytes)
      : dtype_(dtype), dims_(std::move(dims)), bytes_(std::move(bytes)) {}

  template <typename T>
  static TestBuffer Of(std::vector<int64_t> dims, const std::vector<T>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return TestBuffer(DTypeOf<T>::value, std::move(dims), std::move(bytes));
  }
  template <typename T>
  static TestBuffer Scalar(T value) {
    return Of<T>({}, std::vector<T>{value});
  }
  /// Makes a buffer whose elements are elsewhere, in a device's memory.
  static TestBuffer At(DType dtype, std::vector<int64_t> dims, void* address) {
    TestBuffer buffer = Zeros(dtype, std::move(dims));
    buffer.address_ = address;
    return buffer;
  }
  static TestBuffer Zeros(DType dtype, std::vector<int64_t> dims) {
    int64_t elements = 1;
    for (const int64_t extent : dims) elements *= extent;
    return TestBuffer(dtype, std::move(dims), std::vector<uint8_t>(PackedBytes(dtype, elements)));
  }

  /// Borrowed: valid until the TestBuffer is moved or destroyed.
  callout_buffer view() {
    callout_buffer view = {};
    view.dtype = static_cast<uint32_t>(dtype_);
    view.rank = static_cast<uint32_t>(dims_.size());
    view.data = address_ != nullptr ? address_ : bytes_.data();
    view.dims = dims_.data();
    view.size_bytes = bytes_.size();
    return view;
  }

  DType dtype() const { return dtype_; }
  std::vector<int64_t>& dims() { return dims_; }
  std::vector<uint8_t>& bytes() { return bytes_; }
  template <typename T>
  std::vector<T> values() const {
    std::vector<T> values(bytes_.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes_.data(), bytes_.size());
    return values;
  }

 private:
  DType dtype_;
  std::vector<int64_t> dims_;
  std::vector<uint8_t> bytes_;
  void* address_ = nullptr;
};

}  // namespace callout::internal
