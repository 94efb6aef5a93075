// SPDX-License-Identifier: Apache-2.0
// The C++ integers for PTX's types, and arithmetic on them that wraps.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "ptx/types.h"

namespace callout::software_gpu::ptx {

template <int bits, bool is_signed>
struct IntegerOfBits;
template <>
struct IntegerOfBits<8, false> : std::type_identity<uint8_t> {};
template <>
struct IntegerOfBits<8, true> : std::type_identity<int8_t> {};
template <>
struct IntegerOfBits<16, false> : std::type_identity<uint16_t> {};
template <>
struct IntegerOfBits<16, true> : std::type_identity<int16_t> {};
template <>
struct IntegerOfBits<32, false> : std::type_identity<uint32_t> {};
template <>
struct IntegerOfBits<32, true> : std::type_identity<int32_t> {};
template <>
struct IntegerOfBits<64, false> : std::type_identity<uint64_t> {};
template <>
struct IntegerOfBits<64, true> : std::type_identity<int64_t> {};

/// An untyped or floating-point type has the unsigned integer of its size.
template <Type type>
using Integer = typename IntegerOfBits<Bits(type), IsSigned(type)>::type;

/// Holds every product and sum of two Integer<type>s and a carry.
template <Type type>
using Wide = std::conditional_t<IsSigned(type), __int128, unsigned __int128>;

template <Type type>
constexpr Integer<type> Read(uint64_t value) {
  return static_cast<Integer<type>>(value);
}

/// Returns the low bits of `value`.
template <Type type, typename Value>
constexpr uint64_t Write(Value value) {
  return static_cast<std::make_unsigned_t<Integer<type>>>(value);
}

template <Type type, typename Value>
constexpr uint64_t Clamp(Value value) {
  using Limits = std::numeric_limits<Integer<type>>;
  if (value < static_cast<Value>(Limits::min())) return Write<type>(Limits::min());
  if (value > static_cast<Value>(Limits::max())) return Write<type>(Limits::max());
  return Write<type>(value);
}

}  // namespace callout::software_gpu::ptx
