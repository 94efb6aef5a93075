// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npy files of one array (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <string>
#include <string_view>

#include "array.h"
#include "callout/status.h"

namespace callout::tools {

/// Parses an ".npy" file of version 1 to 3, little-endian, in C or Fortran order. NumPy stores the types that it does
/// not have itself (bfloat16, float8, int4) as raw bytes; these become elements of type `raw` if the sizes agree.
/// `used`, if not null, receives the length of the file, which more bytes may follow. InvalidArgument, with `what` and
/// the reason.
Result<Array> ParseNpy(std::string_view bytes, const std::string& what, DType raw = DType::kInvalid,
                       size_t* used = nullptr);

/// Returns the bytes of an ".npy" file.
std::string FormatNpy(const Array& array);

}  // namespace callout::tools
