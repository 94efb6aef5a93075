// SPDX-License-Identifier: Apache-2.0
//
// Functions that read the shape and the elements of a callout_buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"

namespace callout::internal {

/// Returns the product of the extents; 1 for a scalar.
inline int64_t ElementCount(const callout_buffer& buffer) {
  int64_t n = 1;
  for (uint32_t i = 0; i < buffer.rank; ++i) n *= buffer.dims[i];
  return n;
}

/// Returns the shape in XLA's notation, "f32[8,4]".
CALLOUT_EXPORT std::string ShapeString(const callout_buffer& buffer);

/// Returns the indices, one for each dimension, of the `flat`-th element in row-major order.
CALLOUT_EXPORT std::vector<int64_t> Unravel(int64_t flat, const callout_buffer& buffer);

/// Returns "[1,2]".
CALLOUT_EXPORT std::string IndexString(std::span<const int64_t> index);

/// Returns true for an array of integers that is not empty.
CALLOUT_EXPORT bool HasIntegers(const callout_buffer& buffer);

/// Returns the first element of an array of integers; nullopt for other arrays and for an empty one.
CALLOUT_EXPORT std::optional<int64_t> FirstInteger(const callout_buffer& buffer);

/// Returns whether a layout is row-major. `minor_to_major` lists the dimensions, fastest-varying first.
bool IsRowMajor(std::span<const int64_t> minor_to_major);

/// Copies a dense array with the layout `minor_to_major` and elements of `size` bytes to `to`, row-major. `from` and
/// `to` must not overlap.
void CopyToRowMajor(const std::byte* from, std::span<const int64_t> dims, std::span<const int64_t> minor_to_major,
                    size_t size, std::byte* to);

}  // namespace callout::internal
