// SPDX-License-Identifier: Apache-2.0
//
// Converts values and element types to and from PJRT's.
#pragma once

#include <cstdint>
#include <span>

#include "callout/dtype.h"
#include "callout/pjrt/plugin.h"
#include "callout/status.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Returns a 64-bit hash of a type (splitmix64's steps, prng.di.unimi.it), never 0. Two types collide by chance once in
/// 2^63.
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

/// InvalidArgument for a type that PJRT does not have.
Result<PJRT_Buffer_Type> ToPjrtType(DType dtype);

/// `type`: a PJRT_Buffer_Type. Unimplemented for a type that this library does not have.
Result<DType> FromPjrtType(int type);

pjrt::Value FromNamedValue(const PJRT_NamedValue& value);
pjrt::Values FromNamedValues(const PJRT_NamedValue* values, size_t count);

/// Borrowed: points into `name` and `value`.
PJRT_NamedValue ToNamedValue(const std::string& name, const pjrt::Value& value);

}  // namespace callout::internal
