// SPDX-License-Identifier: Apache-2.0
//
// Splits one array of unsigned words, into which a program packed several arrays, into the buffers that a program would
// pass.
#pragma once

#include "module_bindings.h"

#include <cstdint>
#include <vector>

#include "arrays.h"

namespace callout::python {

/// The places of the arrays in the message. Each element takes one word; a smaller element is the word's lowest bytes.
class PackedLayout {
 public:
  /// `parts`: the dtype and shape of each array, in their order in the message. Throws nanobind's type_error for a
  /// dtype that XLA does not have or whose elements are not whole bytes. Requires GIL.
  PackedLayout(uint32_t word_bytes, const nanobind::sequence& parts);

  /// One of the packed arrays.
  struct Part {
    DType dtype;
    uint32_t item_bytes;
    std::vector<int64_t> extents;
    int64_t elements;
  };
  const std::vector<Part>& parts() const { return parts_; }
  uint32_t word_bytes() const { return word_bytes_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint32_t word_bytes_;
  uint64_t bytes_ = 0;
  std::vector<Part> parts_;
};

/// The arrays of one message. Borrowed: valid while the message and the layout live.
class PackedArrays {
 public:
  /// `message` has `layout.bytes()` bytes.
  PackedArrays(const PackedLayout& layout, const char* message);
  const std::vector<callout_buffer>& buffers() const { return buffers_; }

 private:
  std::vector<std::vector<char>> narrowed_;
  std::vector<callout_buffer> buffers_;
};

}  // namespace callout::python
