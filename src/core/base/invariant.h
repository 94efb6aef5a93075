// SPDX-License-Identifier: Apache-2.0
//
// CALLOUT_CHECK ends the process if an invariant of this library is broken, and names the invariant.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CALLOUT_CHECK(condition, text)                                                                             \
  do {                                                                                                             \
    if (!(condition)) [[unlikely]] {                                                                               \
      std::fprintf(stderr, "callout: broken invariant at %s:%d: %s (%s)\n", __FILE__, __LINE__, text, #condition); \
      std::abort();                                                                                                \
    }                                                                                                              \
  } while (false)
