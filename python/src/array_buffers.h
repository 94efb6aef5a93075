// SPDX-License-Identifier: Apache-2.0
//
// NumPy arrays as the buffers that a program would pass.
#pragma once

#include "module_bindings.h"

#include <cstdint>
#include <vector>

#include "arrays.h"

namespace callout::python {

class ArrayBuffers {
 public:
  /// Keeps the arrays, or dense copies of them. Throws nanobind's python_error, or type_error for a dtype that XLA does
  /// not have. Requires GIL.
  explicit ArrayBuffers(const nanobind::sequence& arrays) {
    for (nanobind::handle item : arrays) Append(item.ptr());
  }
  /// Borrowed: valid while this object lives.
  const callout_buffer* data() const { return buffers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(buffers_.size()); }

 private:
  void Append(PyObject* object);

  std::vector<Ref> arrays_;
  std::vector<std::vector<char>> packed_;  ///< Sub-byte elements, packed as XLA packs them.
  std::vector<callout_buffer> buffers_;
};

}  // namespace callout::python
