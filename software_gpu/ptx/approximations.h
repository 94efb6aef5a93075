// SPDX-License-Identifier: Apache-2.0
// The approximate functions. The C library computes them in double, and the result is rounded to the type, so they are
// more exact than the ISA promises. Special values follow the ISA's tables.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ptx/float_arithmetic.h"
#include "ptx/floats.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

using DoubleFunction = double (*)(double);

inline double Reciprocal(double a) { return 1 / a; }
inline double SquareRoot(double a) { return std::sqrt(a); }
/// The reciprocal root of -0 is -infinity.
inline double ReciprocalRoot(double a) { return 1 / std::sqrt(a); }
inline double Sine(double a) { return std::sin(a); }
inline double Cosine(double a) { return std::cos(a); }
inline double Log2(double a) { return std::log2(a); }
inline double Exp2(double a) { return std::exp2(a); }
inline double Tanh(double a) { return std::tanh(a); }

template <Type type, DoubleFunction function>
uint64_t Approximate(const Modifiers& how, uint64_t a) {
  const double value = Value<type>(how, a);
  return Finish<type>(how, Encode<type>(function(value)));
}

/// Approximates by the upper word alone; the lower word of the result is zero.
template <DoubleFunction function>
uint64_t ApproximateUpper(const Modifiers& /*how*/, uint64_t a) {
  const uint64_t upper = FlushBits<Type::kF64>(a & 0xffffffff00000000);
  if (IsNanBits<Type::kF64>(upper)) return 0x7fffffff00000000;
  const uint64_t result = std::bit_cast<uint64_t>(function(std::bit_cast<double>(upper)));
  if (IsNanBits<Type::kF64>(result)) return 0x7fffffff00000000;
  return FlushBits<Type::kF64>(result & 0xffffffff00000000);
}

/// Computes rsqrt.approx.f64 without .ftz, which uses the whole value.
inline uint64_t ReciprocalRootF64(uint64_t a) {
  return std::bit_cast<uint64_t>(ReciprocalRoot(std::bit_cast<double>(a)));
}

/// A divisor of more than 2^126 gives 0, or NaN for an infinite dividend.
inline uint64_t DivApproximate(const Modifiers& how, uint64_t a, uint64_t b) {
  constexpr float kLarge = 0x1p126F;
  const float x = Value<Type::kF32>(how, a);
  const float y = Value<Type::kF32>(how, b);
  if (std::isfinite(y) && std::fabs(y) > kLarge && !std::isnan(x)) {
    if (std::isinf(x)) return FormatOf<Type::kF32>().nan();
    return (a ^ b) & FormatOf<Type::kF32>().sign();
  }
  return Finish<Type::kF32>(how, BitsOf<Type::kF32>(x / y));
}

inline uint64_t DivFull(const Modifiers& how, uint64_t a, uint64_t b) {
  const float x = Value<Type::kF32>(how, a);
  const float y = Value<Type::kF32>(how, b);
  return Finish<Type::kF32>(how, BitsOf<Type::kF32>(x / y));
}

}  // namespace callout::software_gpu::ptx
