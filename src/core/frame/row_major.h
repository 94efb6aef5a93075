// SPDX-License-Identifier: Apache-2.0
//
// The order of an array's elements in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace callout::internal {

/// `minor_to_major`: the dimensions, the one whose neighbours are neighbours in memory first.
bool IsRowMajor(std::span<const int64_t> minor_to_major);

/// Copies a dense array of `minor_to_major`, with elements of `size` bytes, to `to`, row-major. They do not overlap.
void CopyToRowMajor(const std::byte* from, std::span<const int64_t> dims, std::span<const int64_t> minor_to_major,
                    size_t size, std::byte* to);

}  // namespace callout::internal
