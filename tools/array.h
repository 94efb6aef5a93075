// SPDX-License-Identifier: Apache-2.0
//
// The command's arrays: dense and row-major. Sub-byte elements take a byte each, as PJRT requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "callout/pjrt/program.h"

namespace callout::tools {

struct Array {
  pjrt::ArrayType type;
  std::vector<std::byte> bytes;
};

/// Returns the number of bytes of one element.
size_t ElementSize(DType dtype);

/// Returns the number of elements of a shape. InvalidArgument for negative extents, and for more bytes than memory can
/// have.
Result<int64_t> ElementCount(const pjrt::ArrayType& type);

/// Returns "(f32[2,3], s32[])".
std::string Listed(const std::vector<pjrt::ArrayType>& types);

/// Makes an array of zeros. Requires a `type` that ElementCount accepts.
Array MakeArray(pjrt::ArrayType type);

/// Returns the array as NumPy prints it.
std::string ToText(const Array& array);

/// Appends the array as JSON: a number, or nested lists.
void AppendJson(const Array& array, std::string& text);

}  // namespace callout::tools
