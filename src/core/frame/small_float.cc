// SPDX-License-Identifier: Apache-2.0
#include "core/frame/small_float.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "callout/elements.h"

namespace callout::internal {
namespace {

bool IsNan(FloatSpecials specials, bool negative, int exponent, int top, int mantissa, int mantissa_top) {
  switch (specials) {
    case FloatSpecials::kIeee:
      return exponent == top && mantissa != 0;
    case FloatSpecials::kNanAtTop:
      return exponent == top && mantissa == mantissa_top;
    case FloatSpecials::kNanAtNegativeZero:
      return negative && exponent == 0 && mantissa == 0;
    case FloatSpecials::kPowerOfTwo:
      return exponent == top;
    case FloatSpecials::kAllNumbers:
      break;
  }
  return false;
}

}  // namespace

float SmallFloatToFloat(const SmallFloatFormat& format, uint16_t bits) {
  const bool is_power = format.specials == FloatSpecials::kPowerOfTwo;
  const int top = (1 << format.exponent_bits) - 1;
  const int mantissa_top = (1 << format.mantissa_bits) - 1;
  const int mantissa = bits & mantissa_top;
  const int exponent = (bits >> format.mantissa_bits) & top;
  const bool negative = !is_power && ((bits >> (format.exponent_bits + format.mantissa_bits)) & 1) != 0;
  if (IsNan(format.specials, negative, exponent, top, mantissa, mantissa_top)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (format.specials == FloatSpecials::kIeee && exponent == top) return negative ? -kInfinity : kInfinity;
  const bool is_subnormal = exponent == 0 && !is_power;
  const int significand = is_subnormal ? mantissa : mantissa + (1 << format.mantissa_bits);
  const int scale = (is_subnormal ? 1 : exponent) - format.bias - format.mantissa_bits;
  const float value = std::ldexp(static_cast<float>(significand), scale);
  return negative ? -value : value;
}

}  // namespace callout::internal

float callout::SmallFloatToFloat(DType dtype, uint16_t bits) {
  const internal::DTypeRow& row = internal::RowOf(dtype);
  return row.is_small_float() ? internal::SmallFloatToFloat(row.format, bits) : std::numeric_limits<float>::quiet_NaN();
}

namespace callout {

void Unpack(DType dtype, const void* packed, int64_t elements, uint8_t* out, HighBits high_bits) {
  const int bits = BitWidth(dtype);
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const bool extend = high_bits == HighBits::kSign && KindOf(dtype) == DTypeKind::kSigned;
  const uint8_t sign = extend ? static_cast<uint8_t>(1 << (bits - 1)) : uint8_t{0};
  const auto* bytes = static_cast<const uint8_t*>(packed);
  for (int64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<uint8_t>((bytes[i / per_byte] >> ((i % per_byte) * bits)) & mask);
    out[i] = (value & sign) != 0 ? static_cast<uint8_t>(value | ~mask) : value;
  }
}

void Pack(DType dtype, const uint8_t* in, int64_t elements, void* packed) {
  const int bits = BitWidth(dtype);
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  auto* bytes = static_cast<uint8_t*>(packed);
  if (elements == 0) return;  // memset must not be given null
  std::memset(bytes, 0, PackedBytes(dtype, elements));
  for (int64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<uint8_t>((in[i] & mask) << ((i % per_byte) * bits));
    bytes[i / per_byte] = static_cast<uint8_t>(bytes[i / per_byte] | value);
  }
}

}  // namespace callout
