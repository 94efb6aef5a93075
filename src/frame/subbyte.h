// SPDX-License-Identifier: Apache-2.0
//
// XLA packs elements of less than a byte, low bits first (two int4 a byte); NumPy's ml_dtypes give each a byte.
#pragma once

#include <cstdint>

#include "callout/dtype.h"

namespace callout::internal {

inline bool IsSubByte(DType dtype) { return BitWidth(dtype) > 0 && BitWidth(dtype) < 8; }

/// What the bits above a signed element become: copies of its sign, as C++ wants them, or zeros, as ml_dtypes stores
/// them.
enum class HighBits { kSign, kZero };

/// Writes `elements` bytes to `out`.
CALLOUT_EXPORT void Unpack(DType dtype, const void* packed, int64_t elements, uint8_t* out,
                           HighBits high_bits = HighBits::kSign);

/// Writes PackedBytes(dtype, elements) bytes to `packed`. Bits above the element's width are dropped.
CALLOUT_EXPORT void Pack(DType dtype, const uint8_t* in, int64_t elements, void* packed);

}  // namespace callout::internal
