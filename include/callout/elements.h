// SPDX-License-Identifier: Apache-2.0
//
// Elements that C++ has no type for: those of less than a byte, and floats of at most 16 bits. XLA packs the former,
// low bits first (two int4 a byte), and so are they in a callout_buffer; pjrt::Buffer::ToHost and NumPy's ml_dtypes
// give each a byte. All functions are thread-safe; the GIL is not needed.
#pragma once

#include <cstdint>

#include "callout/dtype.h"
#include "callout/export.h"

namespace callout {

/// Whether elements have less than a byte.
inline bool IsSubByte(DType dtype) { return BitWidth(dtype) > 0 && BitWidth(dtype) < 8; }

/// What the bits above a signed element become: copies of its sign, as C++ wants them, or zeros, as ml_dtypes stores
/// them.
enum class HighBits { kSign, kZero };

/// Writes a byte for each element to `out`, `elements` bytes. `dtype` is one of IsSubByte.
CALLOUT_EXPORT void Unpack(DType dtype, const void* packed, int64_t elements, uint8_t* out,
                           HighBits high_bits = HighBits::kSign);

/// Writes PackedBytes(dtype, elements) bytes to `packed`. `dtype` is one of IsSubByte. Bits above the element's width
/// are dropped.
CALLOUT_EXPORT void Pack(DType dtype, const uint8_t* in, int64_t elements, void* packed);

/// Returns the value of a float of at most 16 bits, which are the low ones of `bits`; those above do not count. NaN for
/// a dtype that is no such float.
CALLOUT_EXPORT float SmallFloatToFloat(DType dtype, uint16_t bits);

}  // namespace callout
