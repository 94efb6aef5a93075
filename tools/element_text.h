// SPDX-License-Identifier: Apache-2.0
//
// Converts the text of numbers to elements of arrays.
#pragma once

#include <cstddef>
#include <string_view>

#include "callout/dtype.h"
#include "callout/status.h"

namespace callout::tools {

/// Writes the number that `text` holds ("-1.5", "nan", "true", "1+2j") as one element of ElementSize(dtype) bytes.
/// Floats are rounded to the nearest, ties to even. InvalidArgument for text that is no number, and for integers out of
/// range.
Status StoreText(std::string_view text, DType dtype, std::byte* out);

/// Writes a number from [0, 1) as one element. Floats, and both parts of complex numbers, get the number itself;
/// integers get it scaled to their non-negative range, at most 100; booleans are true from 0.5 on.
void StoreUniform(double number, DType dtype, std::byte* out);

/// Parses "f32" and the like, including "i32" for "s32". Returns DType::kInvalid for types that arrays cannot have.
DType ParseDType(std::string_view name);

}  // namespace callout::tools
