// SPDX-License-Identifier: Apache-2.0
//
// Writes arrays of any type, with a format specification for their elements. All functions return InvalidArgument for
// tokens and unknown types.
#pragma once

#include <string>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "callout/status.h"
#include "sinks/text/format_string.h"

namespace callout::internal {

/// Returns the kind of format that elements of a type have.
Result<FormatKind> FormatKindOf(DType dtype);

/// Appends scalars as Python's format writes the result of `item()`, and arrays as `numpy.array2string` does with such
/// elements. Requires a `spec` that was checked for the kind.
Status AppendFormattedArray(const callout_buffer& buffer, const FormatSpec& spec, std::string& out);

/// Appends scalars and arrays as NumPy's `str` writes them. Elements of ml_dtypes have the digits of float32.
Status AppendPlainArray(const callout_buffer& buffer, std::string& out);

}  // namespace callout::internal
