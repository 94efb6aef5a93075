// SPDX-License-Identifier: Apache-2.0
//
// Small questions to ask of a callout_buffer.
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

/// Product of the extents; 1 for a scalar.
inline int64_t ElementCount(const callout_buffer& buffer) {
  int64_t n = 1;
  for (uint32_t i = 0; i < buffer.rank; ++i) n *= buffer.dims[i];
  return n;
}

/// "f32[8,4]", as XLA writes shapes.
CALLOUT_EXPORT std::string ShapeString(const callout_buffer& buffer);

/// Where the row-major `flat`-th element is, an index a dimension.
CALLOUT_EXPORT std::vector<int64_t> Unravel(int64_t flat, const callout_buffer& buffer);

/// "[1,2]"
CALLOUT_EXPORT std::string IndexString(std::span<const int64_t> index);

/// True for an array of integers that is not empty.
CALLOUT_EXPORT bool HasIntegers(const callout_buffer& buffer);

/// The first element of an array of integers; nothing for other arrays and for an empty one.
CALLOUT_EXPORT std::optional<int64_t> FirstInteger(const callout_buffer& buffer);

/// `minor_to_major`: the dimensions, the one whose neighbours are neighbours in memory first.
bool IsRowMajor(std::span<const int64_t> minor_to_major);

/// Copies a dense array of `minor_to_major`, with elements of `size` bytes, to `to`, row-major. They do not overlap.
void CopyToRowMajor(const std::byte* from, std::span<const int64_t> dims, std::span<const int64_t> minor_to_major,
                    size_t size, std::byte* to);

}  // namespace callout::internal
