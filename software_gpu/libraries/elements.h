// SPDX-License-Identifier: Apache-2.0
//
// Converts elements of matrices to numbers for arithmetic, and back.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "libraries/product.h"

namespace callout::software_gpu {

template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};

/// A small float whose exponent's bias is that of IEEE 754. `kFinite`: the format has no infinities, and its only NaN
/// is all ones.
template <int kExponentBits, int kMantissaBits, bool kFinite = false>
struct Small {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kExponents = (1U << kExponentBits) - 1;
  static constexpr uint32_t kMantissas = (1U << kMantissaBits) - 1;
  static constexpr uint32_t kSign = 1U << (kExponentBits + kMantissaBits);

  static float Load(uint32_t bits) {
    const auto exponent = static_cast<int>(bits >> kMantissaBits & kExponents);
    const uint32_t mantissa = bits & kMantissas;
    const float sign = (bits & kSign) != 0 ? -1.0F : 1.0F;
    const bool top = exponent == static_cast<int>(kExponents);
    if (top && (kFinite ? mantissa == kMantissas : mantissa != 0)) return std::numeric_limits<float>::quiet_NaN();
    if (top && !kFinite) return sign * std::numeric_limits<float>::infinity();
    const uint32_t whole = exponent == 0 ? mantissa : mantissa | (kMantissas + 1);
    return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - kBias - kMantissaBits);
  }

  /// Rounds to the nearest, ties to even. A value that is too large becomes infinite, or the largest value if there are
  /// no infinities.
  static uint32_t Store(float value) {
    const uint32_t sign = std::signbit(value) ? kSign : 0;
    if (std::isnan(value)) return sign | kExponents << kMantissaBits | (kFinite ? kMantissas : kMantissas / 2 + 1);
    constexpr uint32_t kLargest =
        kFinite ? (kExponents << kMantissaBits | kMantissas) - 1 : kExponents << kMantissaBits;
    const float magnitude = std::fabs(value);
    if (magnitude == 0) return sign;
    if (std::isinf(value)) return sign | kLargest;
    const int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
    // nearbyint rounds in the thread's mode, which is to the nearest, ties to even. A carry goes into the exponent, as
    // it must.
    const auto whole = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent)));
    const int64_t bits = whole + (static_cast<int64_t>(exponent + kBias - 1) << kMantissaBits);
    return sign | static_cast<uint32_t>(std::min<int64_t>(bits, kLargest));
  }
};
using Half = Small<5, 10>;
using E5M2 = Small<5, 2>;
using E4M3 = Small<4, 3, true>;

inline float LoadBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
inline uint16_t StoreBf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T>
T ReadAt(uint64_t address, int64_t index) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(address) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void WriteAt(uint64_t address, int64_t index, T value) {
  std::memcpy(reinterpret_cast<char*>(address) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

/// Loads an element as a T: float, double, int64_t, or complex of the first two. Complex elements load only as complex.
template <typename T>
T LoadElement(Element type, uint64_t address, int64_t index) {
  if constexpr (IsComplex<T>::value) {
    if (type == Element::kC64) return T(ReadAt<std::complex<float>>(address, index));
    if (type == Element::kC128) return T(ReadAt<std::complex<double>>(address, index));
    return {};
  } else {
    switch (type) {
      case Element::kF32:
        return static_cast<T>(ReadAt<float>(address, index));
      case Element::kF64:
        return static_cast<T>(ReadAt<double>(address, index));
      case Element::kF16:
        return static_cast<T>(Half::Load(ReadAt<uint16_t>(address, index)));
      case Element::kBf16:
        return static_cast<T>(LoadBf16(ReadAt<uint16_t>(address, index)));
      case Element::kS8:
        return static_cast<T>(ReadAt<int8_t>(address, index));
      case Element::kS32:
        return static_cast<T>(ReadAt<int32_t>(address, index));
      case Element::kF8E4M3:
        return static_cast<T>(E4M3::Load(ReadAt<uint8_t>(address, index)));
      case Element::kF8E5M2:
        return static_cast<T>(E5M2::Load(ReadAt<uint8_t>(address, index)));
      default:
        return {};
    }
  }
}

template <typename T>
void StoreElement(Element type, uint64_t address, int64_t index, T value) {
  if constexpr (IsComplex<T>::value) {
    if (type == Element::kC64) WriteAt(address, index, std::complex<float>(value));
    if (type == Element::kC128) WriteAt(address, index, std::complex<double>(value));
  } else {
    switch (type) {
      case Element::kF32:
        return WriteAt(address, index, static_cast<float>(value));
      case Element::kF64:
        return WriteAt(address, index, static_cast<double>(value));
      case Element::kF16:
        return WriteAt(address, index, static_cast<uint16_t>(Half::Store(static_cast<float>(value))));
      case Element::kBf16:
        return WriteAt(address, index, StoreBf16(static_cast<float>(value)));
      case Element::kS8:
        return WriteAt(address, index, static_cast<int8_t>(std::clamp<T>(value, -128, 127)));
      case Element::kS32:
        return WriteAt(address, index, static_cast<int32_t>(value));
      case Element::kF8E4M3:
        return WriteAt(address, index, static_cast<uint8_t>(E4M3::Store(static_cast<float>(value))));
      case Element::kF8E5M2:
        return WriteAt(address, index, static_cast<uint8_t>(E5M2::Store(static_cast<float>(value))));
      default:
        return;
    }
  }
}

}  // namespace callout::software_gpu
