// SPDX-License-Identifier: Apache-2.0
//
// CALLOUT_CHECK: a broken invariant of our own ends the process and says which one.
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
