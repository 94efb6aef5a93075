// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic. Results wrap unless .sat is given.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ptx/integers.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

template <Type type>
uint64_t Add(uint64_t a, uint64_t b) {
  return Write<type>(a + b);
}

template <Type type>
uint64_t Sub(uint64_t a, uint64_t b) {
  return Write<type>(a - b);
}

template <Type type>
uint64_t AddSaturated(uint64_t a, uint64_t b) {
  return Clamp<type>(Wide<type>{Read<type>(a)} + Read<type>(b));
}

template <Type type>
uint64_t SubSaturated(uint64_t a, uint64_t b) {
  return Clamp<type>(Wide<type>{Read<type>(a)} - Read<type>(b));
}

template <Type type>
uint64_t MulLow(uint64_t a, uint64_t b) {
  return Write<type>(a * b);
}

template <Type type>
uint64_t MulHigh(uint64_t a, uint64_t b) {
  return Write<type>((Wide<type>{Read<type>(a)} * Read<type>(b)) >> Bits(type));
}

/// Multiplies 16 and 32 bits to twice the width.
template <Type type>
uint64_t MulWide(uint64_t a, uint64_t b) {
  if constexpr (IsSigned(type)) {
    return ZeroExtend(static_cast<uint64_t>(int64_t{Read<type>(a)} * Read<type>(b)), 2 * Bits(type));
  } else {
    return ZeroExtend(uint64_t{Read<type>(a)} * Read<type>(b), 2 * Bits(type));
  }
}

template <Type type>
uint64_t MadLow(uint64_t a, uint64_t b, uint64_t c) {
  return Write<type>(a * b + c);
}

template <Type type>
uint64_t MadHigh(uint64_t a, uint64_t b, uint64_t c) {
  return Write<type>(MulHigh<type>(a, b) + c);
}

template <Type type>
uint64_t MadHighSaturated(uint64_t a, uint64_t b, uint64_t c) {
  return AddSaturated<type>(MulHigh<type>(a, b), c);
}

template <Type type>
uint64_t MadWide(uint64_t a, uint64_t b, uint64_t c) {
  return ZeroExtend(MulWide<type>(a, b) + c, 2 * Bits(type));
}

/// Returns the low 24 bits of an operand, as a number.
template <Type type>
int64_t Low24(uint64_t value) {
  return static_cast<int64_t>(IsSigned(type) ? SignExtend(value, 24) : ZeroExtend(value, 24));
}

template <Type type>
uint64_t Mul24Low(uint64_t a, uint64_t b) {
  return Write<type>(Low24<type>(a) * Low24<type>(b));
}

/// Returns bits 47 to 16 of the product.
template <Type type>
uint64_t Mul24High(uint64_t a, uint64_t b) {
  return Write<type>((Low24<type>(a) * Low24<type>(b)) >> 16);
}

template <Type type>
uint64_t Mad24Low(uint64_t a, uint64_t b, uint64_t c) {
  return Write<type>(Mul24Low<type>(a, b) + c);
}

template <Type type>
uint64_t Mad24High(uint64_t a, uint64_t b, uint64_t c) {
  return Write<type>(Mul24High<type>(a, b) + c);
}

template <Type type>
uint64_t Mad24HighSaturated(uint64_t a, uint64_t b, uint64_t c) {
  return AddSaturated<type>(Mul24High<type>(a, b), c);
}

/// Divides. Division by zero, which the ISA leaves open, gives all ones, and its remainder is the dividend.
template <Type type>
uint64_t Div(uint64_t a, uint64_t b) {
  const Integer<type> divisor = Read<type>(b);
  if (divisor == 0) return Write<type>(~uint64_t{0});
  if constexpr (IsSigned(type)) {
    if (divisor == -1) return Write<type>(uint64_t{0} - a);
  }
  return Write<type>(Read<type>(a) / divisor);
}

template <Type type>
uint64_t Rem(uint64_t a, uint64_t b) {
  const Integer<type> divisor = Read<type>(b);
  if (divisor == 0) return Write<type>(a);
  if constexpr (IsSigned(type)) {
    if (divisor == -1) return 0;
  }
  return Write<type>(Read<type>(a) % divisor);
}

/// Returns the magnitude. The smallest number stays as it is.
template <Type type>
uint64_t Abs(uint64_t a) {
  return Write<type>(Read<type>(a) < 0 ? uint64_t{0} - a : a);
}

template <Type type>
uint64_t Neg(uint64_t a) {
  return Write<type>(uint64_t{0} - a);
}

template <Type type>
uint64_t Min(uint64_t a, uint64_t b) {
  return Write<type>(std::min(Read<type>(a), Read<type>(b)));
}

template <Type type>
uint64_t Max(uint64_t a, uint64_t b) {
  return Write<type>(std::max(Read<type>(a), Read<type>(b)));
}

template <Type type>
uint64_t MinRelu(uint64_t a, uint64_t b) {
  return Max<type>(Min<type>(a, b), 0);
}

template <Type type>
uint64_t MaxRelu(uint64_t a, uint64_t b) {
  return Max<type>(Max<type>(a, b), 0);
}

template <Type type>
uint64_t Sad(uint64_t a, uint64_t b, uint64_t c) {
  return Write<type>(Read<type>(a) < Read<type>(b) ? c + b - a : c + a - b);
}

/// The following operations use the condition code: a carry, or a borrow in subtractions.
template <Type type>
uint64_t AddCarry(uint64_t a, uint64_t b, uint64_t carry) {
  return Write<type>(a + b + (carry & 1));
}

template <Type type>
uint64_t SubBorrow(uint64_t a, uint64_t b, uint64_t borrow) {
  return Write<type>(a - b - (borrow & 1));
}

template <Type type>
uint64_t CarryOfAdd(uint64_t a, uint64_t b, uint64_t carry) {
  const auto sum = static_cast<unsigned __int128>(Write<type>(a)) + Write<type>(b) + (carry & 1);
  return static_cast<uint64_t>(sum >> Bits(type));
}

template <Type type>
uint64_t BorrowOfSub(uint64_t a, uint64_t b, uint64_t borrow) {
  const auto taken = static_cast<unsigned __int128>(Write<type>(b)) + (borrow & 1);
  return taken > Write<type>(a) ? 1 : 0;
}

template <Type type>
uint64_t CarryOfAddAlone(uint64_t a, uint64_t b) {
  return CarryOfAdd<type>(a, b, 0);
}

template <Type type>
uint64_t BorrowOfSubAlone(uint64_t a, uint64_t b) {
  return BorrowOfSub<type>(a, b, 0);
}

template <Type type>
uint64_t MadLowCarry(uint64_t a, uint64_t b, uint64_t c, uint64_t carry) {
  return AddCarry<type>(MulLow<type>(a, b), c, carry);
}

template <Type type>
uint64_t MadHighCarry(uint64_t a, uint64_t b, uint64_t c, uint64_t carry) {
  return AddCarry<type>(MulHigh<type>(a, b), c, carry);
}

template <Type type>
uint64_t CarryOfMadLow(uint64_t a, uint64_t b, uint64_t c, uint64_t carry) {
  return CarryOfAdd<type>(MulLow<type>(a, b), c, carry);
}

template <Type type>
uint64_t CarryOfMadHigh(uint64_t a, uint64_t b, uint64_t c, uint64_t carry) {
  return CarryOfAdd<type>(MulHigh<type>(a, b), c, carry);
}

template <Type type>
uint64_t CarryOfMadLowAlone(uint64_t a, uint64_t b, uint64_t c) {
  return CarryOfMadLow<type>(a, b, c, 0);
}

template <Type type>
uint64_t CarryOfMadHighAlone(uint64_t a, uint64_t b, uint64_t c) {
  return CarryOfMadHigh<type>(a, b, c, 0);
}

/// Returns element `index` of a register whose elements have `bits` bits.
constexpr int64_t ElementOf(uint64_t value, int index, int bits, bool is_signed) {
  const uint64_t shifted = value >> (index * bits);
  return static_cast<int64_t>(is_signed ? SignExtend(shifted, bits) : ZeroExtend(shifted, bits));
}

template <Type of_a, Type of_b>
uint64_t Dp4a(uint64_t a, uint64_t b, uint64_t c) {
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += ElementOf(a, i, 8, IsSigned(of_a)) * ElementOf(b, i, 8, IsSigned(of_b));
  return Write<Type::kB32>(c + static_cast<uint64_t>(sum));
}

/// Multiplies the halves of `a` by the two low or the two high bytes of `b`, and adds.
template <Type of_a, Type of_b, int first>
uint64_t Dp2a(uint64_t a, uint64_t b, uint64_t c) {
  int64_t sum = 0;
  for (int i = 0; i < 2; ++i) sum += ElementOf(a, i, 16, IsSigned(of_a)) * ElementOf(b, first + i, 8, IsSigned(of_b));
  return Write<Type::kB32>(c + static_cast<uint64_t>(sum));
}

}  // namespace callout::software_gpu::ptx
