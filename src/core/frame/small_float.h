// SPDX-License-Identifier: Apache-2.0
//
// Floats of 4, 8 and 16 bits as float. Formats: IEEE 754 binary16; bfloat16; the OCP 8-bit and MX specifications for
// f8e5m2, f8e4m3fn, f8e8m0fnu and f4e2m1fn; the "fnuz" variants (one zero, one NaN, no infinity, bias one higher) as
// ml_dtypes defines them.
#pragma once

#include <cstdint>

#include "core/frame/dtype_row.h"

namespace callout::internal {

/// `bits` in its low bits; those above do not count. `format` has bits.
float SmallFloatToFloat(const SmallFloatFormat& format, uint16_t bits);

}  // namespace callout::internal
