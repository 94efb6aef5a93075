// SPDX-License-Identifier: Apache-2.0
//
// Arrays of any type with a format specification for their elements.
#pragma once

#include <string>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "callout/status.h"
#include "sinks/text/format_string.h"

namespace callout::internal {

/// InvalidArgument for tokens and types that are not known, as all here.
Result<FormatKind> FormatKindOf(DType dtype);

/// Scalars as Python's format writes what `item()` returns, arrays as `numpy.array2string` with that for each element.
/// `spec` was checked for the kind.
Status AppendFormattedArray(const callout_buffer& buffer, const FormatSpec& spec, std::string& out);

/// Scalars and arrays as NumPy's `str` writes them; elements of ml_dtypes with the digits of float32.
Status AppendPlainArray(const callout_buffer& buffer, std::string& out);

}  // namespace callout::internal
