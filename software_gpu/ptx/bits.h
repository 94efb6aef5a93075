// SPDX-License-Identifier: Apache-2.0
// Logic, shifts and bit fields.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ptx/integers.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

/// Applies to predicates, which are one bit, as to words.
template <Type type>
constexpr uint64_t LowBits(uint64_t value) {
  return ZeroExtend(value, Bits(type));
}

template <Type type>
uint64_t Move(uint64_t a) {
  return LowBits<type>(a);
}

template <Type type>
uint64_t And(uint64_t a, uint64_t b) {
  return LowBits<type>(a & b);
}

template <Type type>
uint64_t Or(uint64_t a, uint64_t b) {
  return LowBits<type>(a | b);
}

template <Type type>
uint64_t Xor(uint64_t a, uint64_t b) {
  return LowBits<type>(a ^ b);
}

template <Type type>
uint64_t Not(uint64_t a) {
  return LowBits<type>(~a);
}

template <Type type>
uint64_t Cnot(uint64_t a) {
  return LowBits<type>(a) == 0 ? 1 : 0;
}

/// Shifts to the left. The count is 32 bits wide, and clamped to the type's width.
template <Type type>
uint64_t Shl(uint64_t a, uint64_t b) {
  const uint32_t count = static_cast<uint32_t>(b);
  return count >= Bits(type) ? 0 : Write<type>(a << count);
}

template <Type type>
uint64_t Shr(uint64_t a, uint64_t b) {
  const uint32_t count = static_cast<uint32_t>(b);
  if constexpr (IsSigned(type)) {
    return Write<type>(Read<type>(a) >> std::min<uint32_t>(count, Bits(type) - 1));
  } else {
    return count >= Bits(type) ? 0 : Read<type>(a) >> count;
  }
}

/// Shifts the 64 bits {b, a}: returns the upper word after a shift to the left, or the lower word after a shift to the
/// right.
template <Direction direction, Overflow overflow>
uint64_t FunnelShift(uint64_t a, uint64_t b, uint64_t c) {
  const uint32_t count =
      overflow == Overflow::kWrap ? static_cast<uint32_t>(c) & 31 : std::min<uint32_t>(static_cast<uint32_t>(c), 32);
  const uint64_t both = b << 32 | LowBits<Type::kB32>(a);
  return LowBits<Type::kB32>(direction == Direction::kLeft ? both << count >> 32 : both >> count);
}

/// Bit 4i + 2j + k of `table` is the result of the bits i, j and k of a, b and c.
inline uint64_t Lop3(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
  uint64_t result = 0;
  for (int entry = 0; entry < 8; ++entry) {
    if ((table >> entry & 1) == 0) continue;
    result |= ((entry & 4) != 0 ? a : ~a) & ((entry & 2) != 0 ? b : ~b) & ((entry & 1) != 0 ? c : ~c);
  }
  return LowBits<Type::kB32>(result);
}

/// Returns which of the eight bytes {b, a} becomes byte `i` of the result, by the low bits of c; 8 is added to repeat
/// the byte's sign.
template <Permute mode>
constexpr unsigned PermuteByte(unsigned c, unsigned i) {
  const unsigned two = c & 3;
  switch (mode) {
    case Permute::kF4e:
      return two + i;
    case Permute::kB4e:
      return (two - i) & 7;
    case Permute::kRc8:
      return two;
    case Permute::kEcl:
      return std::max(two, i);
    case Permute::kEcr:
      return std::min(two, i);
    case Permute::kRc16:
      return (two & 1) * 2 + (i & 1);
    default:
      return c >> (4 * i) & 15;
  }
}

template <Permute mode>
uint64_t Prmt(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t both = b << 32 | LowBits<Type::kB32>(a);
  uint64_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned from = PermuteByte<mode>(static_cast<unsigned>(c), i);
    uint64_t byte = both >> (8 * (from & 7)) & 0xff;
    if ((from & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

/// Extracts a bit field. Position and length are bytes.
template <Type type>
uint64_t Bfe(uint64_t a, uint64_t b, uint64_t c) {
  const int position = static_cast<int>(b & 0xff);
  const int length = static_cast<int>(c & 0xff);
  if (length == 0) return 0;
  const int last = std::min(position + length, Bits(type)) - 1;
  const uint64_t value = Write<type>(a);
  // Past the end, the field is only the sign.
  const uint64_t field = position > last ? 0 : value >> position;
  const int width = std::max(last - position + 1, 0);
  const bool ones = IsSigned(type) && (value >> last & 1) != 0;
  const uint64_t low = ZeroExtend(field, width);
  return Write<type>(ones && width < 64 ? low | ~uint64_t{0} << width : low);
}

template <Type type>
uint64_t Bfi(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const int position = static_cast<int>(c & 0xff);
  const int length = static_cast<int>(d & 0xff);
  if (position >= Bits(type)) return Write<type>(b);
  const uint64_t mask = ZeroExtend(~uint64_t{0}, std::min(length, 64)) << position;
  return Write<type>((b & ~mask) | (a << position & mask));
}

template <Type type, bool shift_amount>
uint64_t Bfind(uint64_t a) {
  uint64_t value = Write<type>(a);
  if constexpr (IsSigned(type)) {
    if (Read<type>(a) < 0) value = Write<type>(~value);
  }
  if (value == 0) return 0xffffffff;
  const int position = 63 - std::countl_zero(value);
  return static_cast<uint64_t>(shift_amount ? Bits(type) - 1 - position : position);
}

template <Type type>
uint64_t Clz(uint64_t a) {
  return static_cast<uint64_t>(std::countl_zero(Read<type>(a)));
}

template <Type type>
uint64_t Popc(uint64_t a) {
  return static_cast<uint64_t>(std::popcount(Read<type>(a)));
}

template <Type type>
uint64_t Brev(uint64_t a) {
  uint64_t result = 0;
  for (int i = 0; i < Bits(type); ++i) result |= (a >> i & 1) << (Bits(type) - 1 - i);
  return result;
}

/// Finds the n-th set bit of `mask` from `base` on: upwards for a positive n, downwards for a negative n.
inline uint64_t Fns(uint64_t mask, uint64_t base, uint64_t n) {
  constexpr uint64_t kNotFound = 0xffffffff;
  const int64_t offset = static_cast<int32_t>(n);
  int64_t position = static_cast<int64_t>(LowBits<Type::kB32>(base));
  const auto is_set = [&] { return (mask >> position & 1) != 0; };
  if (position > 31) return kNotFound;
  if (offset == 0) return is_set() ? static_cast<uint64_t>(position) : kNotFound;
  int64_t left = offset < 0 ? -offset : offset;
  for (; position >= 0 && position < 32; position += offset < 0 ? -1 : 1) {
    if (is_set() && --left == 0) return static_cast<uint64_t>(position);
  }
  return kNotFound;
}

template <Overflow overflow>
uint64_t Bmsk(uint64_t a, uint64_t b) {
  uint64_t position = LowBits<Type::kB32>(a);
  uint64_t width = LowBits<Type::kB32>(b);
  if (overflow == Overflow::kWrap) {
    position &= 31;
    width &= 31;
  }
  if (position >= 32) return 0;
  return LowBits<Type::kB32>(ZeroExtend(~uint64_t{0}, static_cast<int>(std::min<uint64_t>(width, 32))) << position);
}

template <Type type, Overflow overflow>
uint64_t Szext(uint64_t a, uint64_t b) {
  const uint32_t width = static_cast<uint32_t>(b);
  if (width >= 32 && overflow == Overflow::kClamp) return LowBits<Type::kB32>(a);
  const int bits = static_cast<int>(width & 31);
  if (bits == 0) return 0;
  return LowBits<Type::kB32>(IsSigned(type) ? SignExtend(a, bits) : ZeroExtend(a, bits));
}

}  // namespace callout::software_gpu::ptx
