// SPDX-License-Identifier: Apache-2.0
// Floating-point formats: the meaning of their bits, and exact rounding to them, in every mode.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ptx/types.h"

namespace callout::software_gpu::ptx {

/// A format has a sign, then the exponent, then the fraction, in the low bits of a value. In tf32 `unused` zeros
/// follow.
struct Format {
  int exponent_bits;
  int fraction_bits;
  bool infinite = true;  // e4m3 has no infinities, and its only NaN is all ones
  int unused = 0;

  constexpr int bits() const { return 1 + exponent_bits + fraction_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr uint64_t sign() const { return uint64_t{1} << (bits() - 1); }
  constexpr uint64_t nan() const { return sign() - 1; }  // the NaN that instructions return
  /// Returns the exponent of infinities and NaN, with a fraction of 0.
  constexpr uint64_t special() const { return nan() >> fraction_bits << fraction_bits; }
  constexpr uint64_t largest() const { return infinite ? special() - 1 : nan() - 1; }
};

template <Type type>
constexpr Format FormatOf() {
  if constexpr (type == Type::kF16) return {5, 10};
  if constexpr (type == Type::kBf16) return {8, 7};
  if constexpr (type == Type::kTf32) return {8, 10, true, 13};
  if constexpr (type == Type::kF32) return {8, 23};
  if constexpr (type == Type::kF64) return {11, 52};
  if constexpr (type == Type::kE4m3) return {4, 3, false};
  if constexpr (type == Type::kE5m2) return {5, 2};
}

/// True if a magnitude is rounded up. The magnitude has an `odd` or even kept part and a rest of `rest` / (2 * `half`).
constexpr bool RoundsUp(Rounding rounding, bool negative, bool odd, uint64_t rest, uint64_t half) {
  switch (rounding) {
    case Rounding::kRz:
      return false;
    case Rounding::kRm:
      return negative && rest != 0;
    case Rounding::kRp:
      return !negative && rest != 0;
    case Rounding::kRna:
      return rest >= half;
    default:
      return rest > half || (rest == half && odd);
  }
}

/// Returns the result for a magnitude that is too large. `finite` stands for .satfinite.
constexpr uint64_t Overflowed(const Format& format, bool negative, Rounding rounding, bool finite) {
  const bool stays = rounding == Rounding::kRz || rounding == (negative ? Rounding::kRp : Rounding::kRm);
  if (finite || stays) return format.largest();
  return format.infinite ? format.special() : format.nan();
}

/// Returns significand * 2^exponent rounded to `format`, not yet shifted over its unused bits.
constexpr uint64_t RoundTo(const Format& format, bool negative, uint64_t significand, int exponent, Rounding rounding,
                           bool finite = false) {
  const uint64_t sign = negative ? format.sign() : 0;
  if (significand == 0) return sign;
  const int width = 64 - std::countl_zero(significand);
  // The exponent of the leading bit. A subnormal has the scale of the smallest normal number.
  const int leading = std::max(exponent + width - 1, 1 - format.bias());
  const int dropped = leading - format.fraction_bits - exponent;
  uint64_t kept = 0;
  if (dropped <= 0) {
    kept = significand << -dropped;
  } else if (dropped > 64) {
    kept = RoundsUp(rounding, negative, false, 1, 2) ? 1 : 0;
  } else {
    kept = dropped == 64 ? 0 : significand >> dropped;
    const uint64_t half = uint64_t{1} << (dropped - 1);
    const uint64_t rest = significand & (half | (half - 1));
    kept += RoundsUp(rounding, negative, (kept & 1) != 0, rest, half) ? 1 : 0;
  }
  // A carry out of the fraction goes into the exponent, which counts the leading one.
  const uint64_t scale = static_cast<uint64_t>(leading + format.bias() - 1);
  const bool too_large = scale > (format.nan() >> format.fraction_bits);
  const uint64_t magnitude = too_large ? format.sign() : (scale << format.fraction_bits) + kept;
  return sign | (magnitude > format.largest() ? Overflowed(format, negative, rounding, finite) : magnitude);
}

/// Returns the bits of a double rounded to the format. It may be rounded to every format but f64, which it has already.
template <Type type>
uint64_t Encode(double value, Rounding rounding = Rounding::kRn, bool finite = false) {
  if constexpr (type == Type::kF64) return std::bit_cast<uint64_t>(value);
  constexpr Format kFormat = FormatOf<type>();
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  const bool negative = (bits >> 63) != 0;
  uint64_t result = 0;
  if (field == 0x7ff && fraction != 0) {
    return ((kFormat.nan() + 1) << kFormat.unused) - 1;
  } else if (field == 0x7ff) {
    result = Overflowed(kFormat, negative, Rounding::kRn, finite) | (negative ? kFormat.sign() : 0);
  } else {
    const uint64_t significand = field == 0 ? fraction : fraction | (uint64_t{1} << 52);
    result = RoundTo(kFormat, negative, significand, std::max(field, 1) - 1075, rounding, finite);
  }
  return result << kFormat.unused;
}

template <>
inline uint64_t Encode<Type::kF32>(double value, Rounding rounding, bool finite) {
  if (value != value) return 0x7fffffff;
  if (rounding == Rounding::kRn && !finite) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t sign = bits >> 63 << 31;
  if (std::isinf(value)) return sign | (finite ? 0x7f7fffff : 0x7f800000);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return RoundTo(FormatOf<Type::kF32>(), sign != 0, field == 0 ? fraction : fraction | (uint64_t{1} << 52),
                 std::max(field, 1) - 1075, rounding, finite);
}

/// Returns the exact value of `bits`.
template <Type type>
double Decode(uint64_t bits) {
  if constexpr (type == Type::kF64) {
    return std::bit_cast<double>(bits);
  } else if constexpr (type == Type::kF32) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (type == Type::kBf16) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  } else if constexpr (type == Type::kTf32) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) & ~((1U << FormatOf<type>().unused) - 1));
  } else {
    constexpr Format kFormat = FormatOf<type>();
    const uint64_t sign = (bits & kFormat.sign()) != 0 ? uint64_t{1} << 63 : 0;
    const uint64_t magnitude = bits & (kFormat.sign() - 1);
    if (magnitude > (kFormat.infinite ? kFormat.special() : kFormat.largest())) {
      return std::bit_cast<double>(sign | 0x7ff8000000000000);
    }
    if (kFormat.infinite && magnitude == kFormat.special()) return std::bit_cast<double>(sign | 0x7ff0000000000000);
    if (magnitude >> kFormat.fraction_bits == 0) {
      const double smallest =
          std::bit_cast<double>(static_cast<uint64_t>(1023 + 1 - kFormat.bias() - kFormat.fraction_bits) << 52);
      return std::bit_cast<double>(sign | std::bit_cast<uint64_t>(static_cast<double>(magnitude) * smallest));
    }
    const uint64_t rebased =
        (magnitude << (52 - kFormat.fraction_bits)) + (static_cast<uint64_t>(1023 - kFormat.bias()) << 52);
    return std::bit_cast<double>(sign | rebased);
  }
}

template <Type type>
constexpr bool IsNanBits(uint64_t bits) {
  constexpr Format kFormat = FormatOf<type>();
  const uint64_t magnitude = bits & (kFormat.sign() - 1);
  return kFormat.infinite ? magnitude > kFormat.special() : magnitude == kFormat.nan();
}

/// Turns a subnormal into the zero of its sign, as .ftz does.
template <Type type>
constexpr uint64_t FlushBits(uint64_t bits) {
  constexpr Format kFormat = FormatOf<type>();
  return (bits & kFormat.special()) == 0 ? bits & kFormat.sign() : bits;
}

/// Returns the NaN of f32, f16 and bf16 for any NaN. f64 keeps the input's.
template <Type type>
constexpr uint64_t Canonical(uint64_t bits) {
  if constexpr (type == Type::kF64) return bits;
  return IsNanBits<type>(bits) ? FormatOf<type>().nan() : bits;
}

/// Returns a + b rounded to odd. Narrower formats round from it as from the exact sum, because 53 bits are at least two
/// more than they have.
inline double AddToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  return std::bit_cast<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

}  // namespace callout::software_gpu::ptx
