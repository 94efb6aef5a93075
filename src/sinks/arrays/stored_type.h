// SPDX-License-Identifier: Apache-2.0
//
// The element types that files of arrays have, which are those that Arrow, NumPy and Zarr have in common.
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

/// Axes of an array that is written or read, as NumPy has them at most.
inline constexpr size_t kMaxStoredRank = 64;

/// InvalidArgument for more axes, those of the rows and devices included.
Status CheckStoredRank(size_t axes);

/// What elements of a type are written as: floats that only XLA has as float32, integers of less than a byte as bytes,
/// which is exact for all of them; other types as they are. InvalidArgument for tokens and types that are not known.
Result<DType> StoredType(DType dtype);

/// "f32[2,3]", for errors.
std::string TypeText(DType dtype, std::span<const int64_t> shape);

/// The bytes of the whole array in a file.
uint64_t StoredBytes(const callout_buffer& buffer, DType stored);

/// The whole array as it is stored: the buffer's own memory, or `memory` with what was made of it. Borrowed: valid
/// until either changes.
std::string_view StoredElements(const callout_buffer& buffer, DType stored, std::string& memory);

}  // namespace callout::internal
