// SPDX-License-Identifier: Apache-2.0
//
// An array of the command's: dense and row-major, elements of less than a byte in a byte each, as PJRT takes them.
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

/// Bytes of one element.
size_t ElementSize(DType dtype);

/// The number of elements of a shape. InvalidArgument for negative extents and for more bytes than memory can have.
Result<int64_t> ElementCount(const pjrt::ArrayType& type);

/// "(f32[2,3], s32[])".
std::string Listed(const std::vector<pjrt::ArrayType>& types);

/// Zeros. `type` is one of an array that there is.
Array MakeArray(pjrt::ArrayType type);

/// The array as NumPy prints it.
std::string ToText(const Array& array);

/// The array as JSON: a number, or nested lists.
void AppendJson(const Array& array, std::string& text);

}  // namespace callout::tools
