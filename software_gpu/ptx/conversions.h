// SPDX-License-Identifier: Apache-2.0
// cvt: conversions between integers, between floats, and from one to the other.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ptx/float_arithmetic.h"
#include "ptx/floats.h"
#include "ptx/integers.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

constexpr bool RoundsToInteger(Rounding rounding) { return rounding >= Rounding::kRni; }

inline double RoundedToInteger(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kRni:
      return std::nearbyint(value);
    case Rounding::kRzi:
      return std::trunc(value);
    case Rounding::kRmi:
      return std::floor(value);
    case Rounding::kRpi:
      return std::ceil(value);
    default:
      return value;
  }
}

/// Clamps a double, which is an integer, to the type's range.
template <Type to>
uint64_t ClampDouble(double value) {
  using Limits = std::numeric_limits<Integer<to>>;
  constexpr double kBelow = static_cast<double>(Limits::min());
  constexpr double kAbove = IsSigned(to) ? -kBelow : static_cast<double>(Limits::max() / 2 + 1) * 2;
  if (value < kBelow) return Write<to>(Limits::min());
  if (value >= kAbove) return Write<to>(Limits::max());
  return Write<to>(static_cast<Integer<to>>(value));
}

template <Type to, Type from>
uint64_t FloatToInteger(const Modifiers& how, uint64_t a) {
  const double value = Value<from>(how, a);
  if (std::isnan(value)) {
    return from == Type::kF64 || Bits(to) == 64 ? uint64_t{1} << (Bits(to) - 1) : 0;
  }
  return ClampDouble<to>(RoundedToInteger(value, how.rounding));
}

template <Type to, Type from>
uint64_t IntegerToInteger(const Modifiers& how, uint64_t a) {
  return how.saturate ? Clamp<to>(static_cast<__int128>(Read<from>(a))) : Write<to>(Read<from>(a));
}

template <Type to, Type from>
uint64_t IntegerToFloat(const Modifiers& how, uint64_t a) {
  const Integer<from> value = Read<from>(a);
  const bool negative = IsSigned(from) && (SignExtend(a, Bits(from)) >> 63) != 0;
  const uint64_t magnitude = negative ? uint64_t{0} - SignExtend(a, Bits(from)) : static_cast<uint64_t>(value);
  if (how.rounding == Rounding::kRn && (to == Type::kF32 || to == Type::kF64)) {
    return Finish<to>(how, BitsOf<to>(static_cast<Number<to>>(value)));
  }
  return Finish<to>(how, RoundTo(FormatOf<to>(), negative, magnitude, 0, how.rounding));
}

template <Type to, Type from>
uint64_t FloatToFloat(const Modifiers& how, uint64_t a) {
  Modifiers finish = how;
  finish.flush = how.flush && to == Type::kF32;
  const uint64_t input = how.flush && from == Type::kF32 ? FlushBits<from>(a) : a;
  if constexpr (to == from) {
    if (!RoundsToInteger(how.rounding)) return Finish<to>(finish, ZeroExtend(input, Bits(to)));
    return Finish<to>(finish, Encode<to>(RoundedToInteger(Decode<from>(input), how.rounding)));
  } else {
    const Rounding rounding = how.rounding == Rounding::kNone ? Rounding::kRn : how.rounding;
    return Finish<to>(finish, Encode<to>(Decode<from>(input), rounding, how.saturate_finite));
  }
}

/// Converts one value. .ftz affects f32 only, also where the other type is f16.
template <Type to, Type from>
uint64_t Convert(const Modifiers& how, uint64_t a) {
  if constexpr (IsFloat(from) && IsFloat(to)) {
    return FloatToFloat<to, from>(how, a);
  } else if constexpr (IsFloat(from)) {
    return FloatToInteger<to, from>(how, a);
  } else if constexpr (IsFloat(to)) {
    return IntegerToFloat<to, from>(how, a);
  } else {
    return IntegerToInteger<to, from>(how, a);
  }
}

/// Converts to tf32 and to elements of eight bits, which have no arithmetic of their own.
template <Type to, Type from>
uint64_t Narrow(const Modifiers& how, uint64_t a) {
  const double value = Decode<from>(a);
  if (how.relu && value <= 0) return 0;
  return Encode<to>(value, how.rounding, how.saturate_finite);
}

/// Converts two f32, the first into the upper half.
template <Type to, Type from>
uint64_t NarrowTwo(const Modifiers& how, uint64_t a, uint64_t b) {
  constexpr int kBits = Bits(Element(to));
  return Narrow<Element(to), from>(how, a) << kBits | Narrow<Element(to), from>(how, b);
}

/// Converts each half of a packed value.
template <Type to, Type from>
uint64_t ConvertHalves(const Modifiers& how, uint64_t a) {
  constexpr int kFrom = Bits(Element(from));
  constexpr int kTo = Bits(Element(to));
  return Narrow<Element(to), Element(from)>(how, a >> kFrom) << kTo | Narrow<Element(to), Element(from)>(how, a);
}

/// Saturates and packs two s32, the first into the upper part, below the low bits of c.
template <Type to>
uint64_t ConvertPack(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t both = Clamp<to>(int64_t{Read<Type::kS32>(a)}) << Bits(to) | Clamp<to>(int64_t{Read<Type::kS32>(b)});
  return ZeroExtend(c << (2 * Bits(to)) | both, 32);
}

template <Type to>
uint64_t ConvertPackTwo(uint64_t a, uint64_t b) {
  return ConvertPack<to>(a, b, 0);
}

}  // namespace callout::software_gpu::ptx
