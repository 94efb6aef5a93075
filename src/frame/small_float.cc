// SPDX-License-Identifier: Apache-2.0
#include "frame/small_float.h"

#include <cmath>
#include <limits>

namespace callout::internal {
namespace {

enum class Special {
  kIeee,               // all-ones exponent: infinity and NaNs
  kNanAtTop,           // "fn": only all ones is NaN, no infinity
  kNanAtNegativeZero,  // "fnuz"
  kNone,               // every pattern is a number
};

struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Special special;
};

bool FindFormat(DType dtype, Format& format) {
  switch (dtype) {
    case DType::kFloat16:
      format = {5, 10, 15, Special::kIeee};
      return true;
    case DType::kBfloat16:
      format = {8, 7, 127, Special::kIeee};
      return true;
    case DType::kFloat8E5M2:
      format = {5, 2, 15, Special::kIeee};
      return true;
    case DType::kFloat8E4M3:
      format = {4, 3, 7, Special::kIeee};
      return true;
    case DType::kFloat8E3M4:
      format = {3, 4, 3, Special::kIeee};
      return true;
    case DType::kFloat8E4M3Fn:
      format = {4, 3, 7, Special::kNanAtTop};
      return true;
    case DType::kFloat8E4M3B11Fnuz:
      format = {4, 3, 11, Special::kNanAtNegativeZero};
      return true;
    case DType::kFloat8E5M2Fnuz:
      format = {5, 2, 16, Special::kNanAtNegativeZero};
      return true;
    case DType::kFloat8E4M3Fnuz:
      format = {4, 3, 8, Special::kNanAtNegativeZero};
      return true;
    case DType::kFloat4E2M1Fn:
      format = {2, 1, 1, Special::kNone};
      return true;
    default:
      return false;
  }
}

}  // namespace

float SmallFloatToFloat(DType dtype, uint16_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::kFloat8E8M0Fnu) return bits == 0xff ? kNan : std::ldexp(1.0F, static_cast<int>(bits) - 127);
  Format f{};
  if (!FindFormat(dtype, f)) return kNan;
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const int all = (1 << width) - 1;
  const int pattern = bits & all;
  const bool negative = ((pattern >> (width - 1)) & 1) != 0;
  const int exponent = (pattern >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const int mantissa = pattern & ((1 << f.mantissa_bits) - 1);
  const int top = (1 << f.exponent_bits) - 1;
  if (f.special == Special::kNanAtNegativeZero && pattern == 1 << (width - 1)) return kNan;
  if (f.special == Special::kNanAtTop && exponent == top && mantissa == (1 << f.mantissa_bits) - 1) return kNan;
  if (f.special == Special::kIeee && exponent == top) {
    if (mantissa != 0) return kNan;
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  const float value =
      std::ldexp(static_cast<float>(significand), (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

}  // namespace callout::internal
