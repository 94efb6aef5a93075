// SPDX-License-Identifier: Apache-2.0
// Floating-point arithmetic. f16 and bf16 are computed exactly, or rounded to odd, as doubles, and then rounded once.
// f32 and f64 round to nearest as C++ does. For the other modes the processor's own mode is set around volatile
// operands, because there is no wider type in which to compute f64. The mode belongs to the thread, so threads do not
// disturb each other.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ptx/floats.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

/// Sets the thread's rounding mode, and restores it at the end.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) : before_(std::fegetround()) { std::fesetround(ModeOf(rounding)); }
  ~RoundingScope() { std::fesetround(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  static int ModeOf(Rounding rounding) {
    switch (rounding) {
      case Rounding::kRz:
        return FE_TOWARDZERO;
      case Rounding::kRm:
        return FE_DOWNWARD;
      case Rounding::kRp:
        return FE_UPWARD;
      default:
        return FE_TONEAREST;
    }
  }

  int before_;
};

/// The type in which PTX's type is computed.
template <Type type>
using Number = std::conditional_t<type == Type::kF32, float, double>;

template <Type type>
Number<type> Value(const Modifiers& how, uint64_t bits) {
  const uint64_t flushed = how.flush ? FlushBits<type>(bits) : bits;
  return static_cast<Number<type>>(Decode<type>(flushed));
}

/// Applies .sat, .relu, .ftz and the canonical NaN to a result.
template <Type type>
uint64_t Finish(const Modifiers& how, uint64_t bits) {
  constexpr Format kFormat = FormatOf<type>();
  bits = Canonical<type>(bits);
  if (how.saturate) {
    constexpr uint64_t kOne = static_cast<uint64_t>(kFormat.bias()) << kFormat.fraction_bits;
    if (IsNanBits<type>(bits) || (bits & kFormat.sign()) != 0) return 0;
    bits = std::min(bits, kOne);
  }
  if (how.relu && (bits & kFormat.sign()) != 0 && !IsNanBits<type>(bits)) return 0;
  return how.flush ? FlushBits<type>(bits) : bits;
}

template <Type type>
uint64_t BitsOf(Number<type> value) {
  if constexpr (type == Type::kF32) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return Encode<type>(value);
  }
}

struct Plus {
  template <Type type, typename T>
  static T Of(T a, T b, T /*c*/) {
    if constexpr (Bits(type) == 16) return AddToOdd(a, b);
    return a + b;
  }
};
struct Minus {
  template <Type type, typename T>
  static T Of(T a, T b, T /*c*/) {
    if constexpr (Bits(type) == 16) return AddToOdd(a, -b);
    return a - b;
  }
};
struct Times {
  template <Type type, typename T>
  static T Of(T a, T b, T /*c*/) {
    return a * b;
  }
};
struct Over {
  template <Type type, typename T>
  static T Of(T a, T b, T /*c*/) {
    return a / b;
  }
};
struct TimesPlus {
  template <Type type, typename T>
  static T Of(T a, T b, T c) {
    if constexpr (Bits(type) == 16) return AddToOdd(a * b, c);
    return std::fma(a, b, c);
  }
};
struct Root {
  template <Type type, typename T>
  static T Of(T a, T /*b*/, T /*c*/) {
    return std::sqrt(a);
  }
};
struct OneOver {
  template <Type type, typename T>
  static T Of(T a, T /*b*/, T /*c*/) {
    return T{1} / a;
  }
};

template <Type type, typename Function>
Number<type> Directed(Rounding rounding, Number<type> a, Number<type> b, Number<type> c) {
  // Volatile keeps the computation between the calls that set the mode, and away from compile time.
  volatile Number<type> x = a;
  volatile Number<type> y = b;
  volatile Number<type> z = c;
  const RoundingScope scope(rounding);
  volatile Number<type> result = Function::template Of<type, Number<type>>(x, y, z);
  return result;
}

template <Type type, typename Function>
uint64_t Compute(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  const Number<type> x = Value<type>(how, a);
  const Number<type> y = Value<type>(how, b);
  const Number<type> z = Value<type>(how, c);
  const bool nearest = how.rounding == Rounding::kRn || how.rounding == Rounding::kNone;
  return Finish<type>(how, BitsOf<type>(nearest ? Function::template Of<type, Number<type>>(x, y, z)
                                                : Directed<type, Function>(how.rounding, x, y, z)));
}

template <Type type, typename Function>
uint64_t Unary(const Modifiers& how, uint64_t a) {
  return Compute<type, Function>(how, a, 0, 0);
}

template <Type type, typename Function>
uint64_t Binary(const Modifiers& how, uint64_t a, uint64_t b) {
  return Compute<type, Function>(how, a, b, 0);
}

template <Type type, typename Function>
uint64_t Ternary(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  return Compute<type, Function>(how, a, b, c);
}

/// Rounds to the nearest, without other modifiers; compilers vectorise it.
template <Type type, typename Function>
uint64_t PlainBinary(uint64_t a, uint64_t b) {
  return Binary<type, Function>(Modifiers{}, a, b);
}

template <Type type, typename Function>
uint64_t PlainTernary(uint64_t a, uint64_t b, uint64_t c) {
  return Ternary<type, Function>(Modifiers{}, a, b, c);
}

/// Changes the sign, of NaN as well.
template <Type type>
uint64_t FloatNeg(const Modifiers& how, uint64_t a) {
  const uint64_t bits = ZeroExtend(a, Bits(type)) ^ FormatOf<type>().sign();
  return how.flush ? FlushBits<type>(bits) : bits;
}

template <Type type>
uint64_t FloatAbs(const Modifiers& how, uint64_t a) {
  const uint64_t bits = a & (FormatOf<type>().sign() - 1);
  return how.flush ? FlushBits<type>(bits) : bits;
}

/// Returns b with the sign of a.
template <Type type>
uint64_t Copysign(uint64_t a, uint64_t b) {
  constexpr uint64_t kSign = FormatOf<type>().sign();
  return (a & kSign) | (b & (kSign - 1));
}

/// Returns the minimum or maximum. Of a number and a NaN it returns the number, unless .NaN is set; -0 is less than +0.
/// `sign` is the sign that .xorsign.abs gives the result.
template <Type type, bool larger>
uint64_t Extreme(const Modifiers& how, uint64_t a, uint64_t b) {
  constexpr Format kFormat = FormatOf<type>();
  const uint64_t sign = how.xorsign ? (a ^ b) & kFormat.sign() : 0;
  const uint64_t kept = how.xorsign ? kFormat.sign() - 1 : kFormat.sign() | (kFormat.sign() - 1);
  const uint64_t x = (how.flush ? FlushBits<type>(a) : a) & kept;
  const uint64_t y = (how.flush ? FlushBits<type>(b) : b) & kept;
  const bool nan_x = IsNanBits<type>(x);
  const bool nan_y = IsNanBits<type>(y);
  if ((nan_x && nan_y) || (how.nan && (nan_x || nan_y))) {
    return type == Type::kF64 ? (nan_x ? x : y) : kFormat.nan();
  }
  if (nan_x) return y | sign;
  if (nan_y) return x | sign;
  // Turns sign and magnitude into a two's complement number, which has the order of the values.
  const auto order = [sign_bit = kFormat.sign()](uint64_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & (sign_bit - 1));
    return (bits & sign_bit) != 0 ? -magnitude - 1 : magnitude;
  };
  const uint64_t result = (order(x) < order(y)) == larger ? y : x;
  return sign | result;
}

template <Type type, bool larger>
uint64_t FloatExtreme(const Modifiers& how, uint64_t a, uint64_t b) {
  Modifiers relu;
  relu.relu = how.relu;
  return Finish<type>(relu, Extreme<type, larger>(how, a, b));
}

/// Returns the minimum or maximum of three inputs.
template <Type type, bool larger>
uint64_t FloatExtreme3(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  return FloatExtreme<type, larger>(how, FloatExtreme<type, larger>(how, a, b), c);
}

/// Applies `F` to each element of packed values.
template <Type type, auto F>
uint64_t Halves(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  constexpr int kBits = Bits(Element(type));
  const auto low = [](uint64_t value) { return ZeroExtend(value, kBits); };
  uint64_t upper = 0;
  uint64_t lower = 0;
  if constexpr (std::is_invocable_v<decltype(F), const Modifiers&, uint64_t>) {
    lower = F(how, low(a));
    upper = F(how, low(a >> kBits));
  } else if constexpr (std::is_invocable_v<decltype(F), const Modifiers&, uint64_t, uint64_t>) {
    lower = F(how, low(a), low(b));
    upper = F(how, low(a >> kBits), low(b >> kBits));
  } else if constexpr (std::is_invocable_v<decltype(F), uint64_t, uint64_t>) {
    lower = F(low(a), low(b));
    upper = F(low(a >> kBits), low(b >> kBits));
  } else {
    lower = F(how, low(a), low(b), low(c));
    upper = F(how, low(a >> kBits), low(b >> kBits), low(c >> kBits));
  }
  return upper << kBits | lower;
}

template <Type type, auto F>
uint64_t UnaryHalves(const Modifiers& how, uint64_t a) {
  return Halves<type, F>(how, a, 0, 0);
}

template <Type type, auto F>
uint64_t BinaryHalves(const Modifiers& how, uint64_t a, uint64_t b) {
  return Halves<type, F>(how, a, b, 0);
}

template <Type type, auto F>
uint64_t TernaryHalves(const Modifiers& how, uint64_t a, uint64_t b, uint64_t c) {
  return Halves<type, F>(how, a, b, c);
}

}  // namespace callout::software_gpu::ptx
