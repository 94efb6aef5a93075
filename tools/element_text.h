// SPDX-License-Identifier: Apache-2.0
//
// Numbers as elements of arrays.
#pragma once

#include <cstddef>
#include <string_view>

#include "callout/dtype.h"
#include "callout/status.h"

namespace callout::tools {

/// Writes the number that `text` holds ("-1.5", "nan", "true", "1+2j") as one element: ElementSize(dtype) bytes. Floats
/// are rounded to the nearest, ties to even. InvalidArgument for text that is no number, and for integers out of range.
Status StoreText(std::string_view text, DType dtype, std::byte* out);

/// As StoreText, for a number from 0 to below 1: floats and complex numbers (both parts) are it, integers it of their
/// non-negative range, at most 100; booleans whether it is 0.5 or more.
void StoreUniform(double number, DType dtype, std::byte* out);

/// "f32" and its like, also "i32" for "s32"; DType::kInvalid for what arrays do not have.
DType ParseDType(std::string_view name);

}  // namespace callout::tools
