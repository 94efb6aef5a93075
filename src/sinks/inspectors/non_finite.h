// SPDX-License-Identifier: Apache-2.0
//
// NaN and infinities in an array, found at the speed of its memory.
#pragma once

#include <cstdint>

#include "callout/abi.h"
#include "callout/export.h"

namespace callout::internal {

struct NonFinite {
  uint64_t nan = 0;       ///< Elements; a complex number with a NaN part is one.
  uint64_t infinite = 0;  ///< Complex numbers with an infinite part and no NaN.
  bool first_is_nan = false;
  int64_t first = -1;  ///< Row-major index of the first of those that were asked for; -1: there is none.
};

/// What to look for.
struct NonFiniteChecks {
  bool nan = true;
  bool infinite = true;
};

/// Counts both, and finds the first of what `checks` asks for. Nothing for types that have neither. Thread-safe.
CALLOUT_EXPORT NonFinite CountNonFinite(const callout_buffer& buffer, NonFiniteChecks checks);

}  // namespace callout::internal
