// SPDX-License-Identifier: Apache-2.0
//
// The elements of an array of any type as doubles, a part at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// Writes the elements [first, first + count) of `buffer` to `out`. Integers of 64 bits are rounded, complex numbers
/// are their magnitude, booleans 0 and 1. For types of less than a byte `first` is a multiple of 8. InvalidArgument for
/// tokens and types that are not known. Thread-safe.
CALLOUT_EXPORT Status ReadDoubles(const callout_buffer& buffer, int64_t first, size_t count, double* out);

}  // namespace callout::internal
