// SPDX-License-Identifier: Apache-2.0
//
// Elements that C++ has no type for: elements of less than a byte, and floats of at most 16 bits. XLA packs elements of
// less than a byte, low bits first (two int4 a byte), and so does a callout_buffer; pjrt::Buffer::ToHost and NumPy's
// ml_dtypes give each element a byte. All functions are thread-safe; the GIL is not needed.
#pragma once

#include <cstdint>

#include "callout/dtype.h"
#include "callout/export.h"

namespace callout {

/// Returns whether one element takes less than a byte.
inline bool IsSubByte(DType dtype) { return BitWidth(dtype) > 0 && BitWidth(dtype) < 8; }

/// How Unpack fills the bits above a signed element: with copies of its sign, as C++ wants them, or with zeros, as
/// ml_dtypes stores them.
enum class HighBits { kSign, kZero };

/// Unpacks `elements` elements to `out`, a byte each. `dtype` must be one of IsSubByte.
CALLOUT_EXPORT void Unpack(DType dtype, const void* packed, int64_t elements, uint8_t* out,
                           HighBits high_bits = HighBits::kSign);

/// Packs elements of a byte each into PackedBytes(dtype, elements) bytes at `packed`. `dtype` must be one of IsSubByte.
/// Bits above the element's width are dropped.
CALLOUT_EXPORT void Pack(DType dtype, const uint8_t* in, int64_t elements, void* packed);

/// Returns the value of a float of at most 16 bits, which are the low bits of `bits`; the function ignores the bits
/// above. NaN for a dtype that is no such float.
CALLOUT_EXPORT float SmallFloatToFloat(DType dtype, uint16_t bits);

}  // namespace callout
