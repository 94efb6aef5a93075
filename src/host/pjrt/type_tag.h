// SPDX-License-Identifier: Apache-2.0
//
// A number for the type of an array, so that types are compared in one step.
#pragma once

#include <cstdint>
#include <span>

#include "callout/dtype.h"

namespace callout::internal {

/// A 64-bit hash (splitmix64's steps, prng.di.unimi.it), never 0. Two types have the same one by chance once in 2^63.
inline uint64_t TypeTag(DType dtype, std::span<const int64_t> dims) {
  const auto mix = [](uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  };
  uint64_t tag = mix(static_cast<uint64_t>(dtype));
  for (const int64_t extent : dims) tag = mix(tag ^ static_cast<uint64_t>(extent));
  return tag | 1U;
}

}  // namespace callout::internal
