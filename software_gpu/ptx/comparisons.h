// SPDX-License-Identifier: Apache-2.0
// Comparisons, selections and tests.
#pragma once

#include <cstdint>

#include "ptx/bits.h"
#include "ptx/floats.h"
#include "ptx/integers.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

/// The relations of two numbers, as a set in which a comparison is true.
enum Relation : unsigned { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

constexpr unsigned TrueOf(Compare compare) {
  switch (compare) {
    case Compare::kEq:
      return kEqual;
    case Compare::kNe:
      return kLess | kGreater;
    case Compare::kLt:
    case Compare::kLo:
      return kLess;
    case Compare::kLe:
    case Compare::kLs:
      return kLess | kEqual;
    case Compare::kGt:
    case Compare::kHi:
      return kGreater;
    case Compare::kGe:
    case Compare::kHs:
      return kGreater | kEqual;
    case Compare::kEqu:
      return kEqual | kUnordered;
    case Compare::kNeu:
      return kLess | kGreater | kUnordered;
    case Compare::kLtu:
      return kLess | kUnordered;
    case Compare::kLeu:
      return kLess | kEqual | kUnordered;
    case Compare::kGtu:
      return kGreater | kUnordered;
    case Compare::kGeu:
      return kGreater | kEqual | kUnordered;
    case Compare::kNum:
      return kLess | kEqual | kGreater;
    case Compare::kNan:
      return kUnordered;
    default:
      return 0;
  }
}

template <Type type>
auto Comparand(const Modifiers& how, uint64_t bits) {
  if constexpr (!IsFloat(type)) {
    return Read<type>(bits);
  } else if constexpr (type == Type::kF32) {
    return static_cast<float>(Decode<type>(how.flush ? FlushBits<type>(bits) : bits));
  } else {
    return Decode<type>(how.flush ? FlushBits<type>(bits) : bits);
  }
}

template <Type type>
bool Holds(const Modifiers& how, uint64_t a, uint64_t b) {
  const auto x = Comparand<type>(how, a);
  const auto y = Comparand<type>(how, b);
  const unsigned ordered = (x < y ? kLess : 0U) | (x == y ? kEqual : 0U) | (x > y ? kGreater : 0U);
  return (TrueOf(how.compare) & (ordered == 0 ? kUnordered : ordered)) != 0;
}

inline bool Combine(BooleanOp boolean, bool compared, uint64_t with) {
  switch (boolean) {
    case BooleanOp::kAnd:
      return compared && (with & 1) != 0;
    case BooleanOp::kOr:
      return compared || (with & 1) != 0;
    case BooleanOp::kXor:
      return compared != ((with & 1) != 0);
    default:
      return compared;
  }
}

/// Returns the predicate of two inputs.
template <Type type>
uint64_t Setp(const Modifiers& how, uint64_t a, uint64_t b) {
  return Holds<type>(how, a, b) ? 1 : 0;
}

/// Returns the predicate after `|`.
template <Type type>
uint64_t SetpNot(const Modifiers& how, uint64_t a, uint64_t b) {
  return Holds<type>(how, a, b) ? 0 : 1;
}

/// Returns the predicate combined with a third input.
template <Type type>
uint64_t SetpWith(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  return Combine(how.boolean, Holds<type>(how, a, b), c) ? 1 : 0;
}

template <Type type>
uint64_t SetpNotWith(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  return Combine(how.boolean, !Holds<type>(how, a, b), c) ? 1 : 0;
}

/// Returns the predicate of packed values: that of the lower halves, and after `|` that of the upper halves.
template <Type type, bool upper>
uint64_t SetpHalf(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  constexpr int kShift = upper ? 16 : 0;
  return Combine(how.boolean, Holds<Element(type)>(how, a >> kShift, b >> kShift), c) ? 1 : 0;
}

/// Returns the value for "true": the float 1, or all ones.
template <Type to>
constexpr uint64_t Truth() {
  if constexpr (IsFloat(to)) {
    return static_cast<uint64_t>(FormatOf<to>().bias()) << FormatOf<to>().fraction_bits;
  } else {
    return ZeroExtend(~uint64_t{0}, Bits(to));
  }
}

template <Type to, Type from>
uint64_t Set(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  return Combine(how.boolean, Holds<from>(how, a, b), c) ? Truth<to>() : 0;
}

/// Compares each half. `to` is packed, or u32 with a half of ones for each true half.
template <Type to, Type from>
uint64_t SetHalves(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  constexpr uint64_t kTrue = IsPacked(to) ? Truth<Element(to)>() : 0xffff;
  const bool lower = Combine(how.boolean, Holds<Element(from)>(how, a, b), c);
  const bool upper = Combine(how.boolean, Holds<Element(from)>(how, a >> 16, b >> 16), c);
  return (upper ? kTrue << 16 : 0) | (lower ? kTrue : 0);
}

template <Type type>
uint64_t Selp(uint64_t a, uint64_t b, uint64_t c) {
  return LowBits<type>((c & 1) != 0 ? a : b);
}

/// Returns a if c is not negative, else b. A NaN counts as negative, and -0 does not.
template <Type type, Type of_c>
uint64_t Slct(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  bool first = false;
  if constexpr (of_c == Type::kF32) {
    first = Decode<Type::kF32>(how.flush ? FlushBits<Type::kF32>(c) : c) >= 0;
  } else {
    first = Read<Type::kS32>(c) >= 0;
  }
  return LowBits<type>(first ? a : b);
}

template <Type type, FloatTest test>
uint64_t Testp(uint64_t a) {
  constexpr Format kFormat = FormatOf<type>();
  const uint64_t magnitude = a & (kFormat.sign() - 1);
  const bool nan = magnitude > kFormat.special();
  const bool subnormal = magnitude < (uint64_t{1} << kFormat.fraction_bits);
  switch (test) {
    case FloatTest::kFinite:
      return magnitude < kFormat.special() ? 1 : 0;
    case FloatTest::kInfinite:
      return magnitude == kFormat.special() ? 1 : 0;
    case FloatTest::kNumber:
      return nan ? 0 : 1;
    case FloatTest::kNotANumber:
      return nan ? 1 : 0;
    case FloatTest::kNormal:
      return !subnormal && magnitude < kFormat.special() ? 1 : 0;
    default:
      return subnormal && magnitude != 0 ? 1 : 0;
  }
}

}  // namespace callout::software_gpu::ptx
