// SPDX-License-Identifier: Apache-2.0
//
// Finds NaN and infinities in an array at the speed of memory.
#pragma once

#include <cstdint>

#include "callout/abi.h"
#include "callout/export.h"

namespace callout::internal {

struct NonFinite {
  uint64_t nan = 0;       ///< The number of elements; a complex number with a NaN part counts once.
  uint64_t infinite = 0;  ///< Complex numbers with an infinite part and no NaN count once.
  bool first_is_nan = false;
  int64_t first = -1;  ///< Row-major index of the first element that `checks` asks for; -1 if there is none.
};

/// The values to look for.
struct NonFiniteChecks {
  bool nan = true;
  bool infinite = true;
};

/// Counts NaN and infinities, and finds the first of those that `checks` asks for. Finds nothing in types that have
/// neither. Thread-safe.
CALLOUT_EXPORT NonFinite CountNonFinite(const callout_buffer& buffer, NonFiniteChecks checks);

}  // namespace callout::internal
