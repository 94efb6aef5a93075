// SPDX-License-Identifier: Apache-2.0
//
// The element types that files of arrays use: those that Arrow, NumPy and Zarr have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "callout/status.h"

namespace callout::internal {

/// The largest number of axes that an array in a file may have. NumPy has the same limit.
inline constexpr size_t kMaxStoredRank = 64;

/// Returns InvalidArgument if `axes` is more than kMaxStoredRank. `axes` is the number of axes in the file, where rows
/// and devices may have axes of their own.
Status CheckStoredRank(size_t axes);

/// Returns the type that elements of `dtype` are written as: float32 for floats that only XLA has, one byte for
/// integers smaller than a byte, and `dtype` itself otherwise. All conversions are exact. Returns InvalidArgument for
/// tokens and unknown types.
Result<DType> StoredType(DType dtype);

/// Returns a text such as "f32[2,3]" for errors.
std::string TypeText(DType dtype, std::span<const int64_t> shape);

/// Returns the number of bytes that the whole array takes in a file.
uint64_t StoredBytes(const callout_buffer& buffer, DType stored);

/// Returns the elements of the whole array as they are stored: the buffer's own memory, or converted ones in `memory`.
/// Borrowed: valid until either changes.
std::string_view StoredElements(const callout_buffer& buffer, DType stored, std::string& memory);

}  // namespace callout::internal
