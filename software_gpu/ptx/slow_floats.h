// SPDX-License-Identifier: Apache-2.0
// A second implementation of formats and rounding, for tests: by arithmetic, where floats.h works on bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ptx/floats.h"

namespace callout::software_gpu::ptx {

/// Computes the value by the definition of a format.
inline double SlowValue(const Format& format, uint64_t bits) {
  const uint64_t fraction = bits & ((uint64_t{1} << format.fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const bool special = exponent == (1 << format.exponent_bits) - 1;
  const double sign = (bits & format.sign()) != 0 ? -1 : 1;
  if (special && format.infinite) return fraction != 0 ? NAN : sign * INFINITY;
  if (special && fraction == (uint64_t{1} << format.fraction_bits) - 1) return NAN;
  const double leading = exponent == 0 ? 0 : 1;
  const double significand = leading + std::ldexp(static_cast<double>(fraction), -format.fraction_bits);
  return sign * std::ldexp(significand, std::max(exponent, 1) - format.bias());
}

/// Rounds by arithmetic: counts units in the last place, in long double, which holds every step exactly.
inline double SlowRound(const Format& format, long double value, Rounding rounding) {
  const int exponent = value == 0 ? 0 : std::max(std::ilogb(value), 1 - format.bias());
  const long double scaled = std::ldexp(value, format.fraction_bits - exponent);
  long double places = 0;
  switch (rounding) {
    case Rounding::kRz:
      places = std::trunc(scaled);
      break;
    case Rounding::kRm:
      places = std::floor(scaled);
      break;
    case Rounding::kRp:
      places = std::ceil(scaled);
      break;
    case Rounding::kRna:
      places = std::round(scaled);
      break;
    default:
      places = std::nearbyint(scaled);
  }
  const auto result = static_cast<double>(std::ldexp(places, exponent - format.fraction_bits));
  const double largest = SlowValue(format, format.largest());
  if (std::fabs(result) <= largest) return std::copysign(result, value < 0 || std::signbit(value) ? -1.0 : 1.0);
  const bool stays = rounding == Rounding::kRz || rounding == (value < 0 ? Rounding::kRp : Rounding::kRm);
  return (value < 0 ? -1 : 1) * (stays ? largest : (format.infinite ? INFINITY : NAN));
}

}  // namespace callout::software_gpu::ptx
