// SPDX-License-Identifier: Apache-2.0
//
// NumPy's files of one array (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <string>
#include <string_view>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

/// The array in the bytes of an ".npy" file of version 1 to 3, little-endian; of Fortran's order, too. Types that NumPy
/// itself does not have (bfloat16, float8, int4) are in such files as raw bytes: they come back as `raw`, if its
/// elements have that size. `used`: null, or where the length of the file goes; more bytes may follow. InvalidArgument
/// with `what` and the reason.
Result<Array> ParseNpy(std::string_view bytes, const std::string& what, DType raw = DType::kInvalid,
                       size_t* used = nullptr);

/// The bytes of an ".npy" file.
std::string FormatNpy(const Array& array);

}  // namespace callout::tools
