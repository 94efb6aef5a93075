// SPDX-License-Identifier: Apache-2.0
#include "watch/non_finite.h"

#include <algorithm>

#include "callout/dtype.h"
#include "frame/buffer.h"

namespace callout::internal {
namespace {

// IEEE 754: all exponent bits set; the fraction is zero in infinities alone.
template <typename Bits, Bits kExponent, Bits kFraction>
struct Ieee {
  using Type = Bits;
  static bool IsBad(Bits bits) { return (bits & kExponent) == kExponent; }
  static bool IsNan(Bits bits) { return IsBad(bits) && (bits & kFraction) != 0; }
  // The top bit is set if it is bad: all ones and one more carry into it.
  static Bits Mark(Bits bits) { return static_cast<Bits>((bits & kExponent) + (kFraction + 1)); }
};

// The formats without infinities: one bit pattern is NaN, with either sign if `kMask` leaves the sign out.
template <uint8_t kMask, uint8_t kNan>
struct NanOnly {
  using Type = uint8_t;
  static bool IsBad(uint8_t bits) { return (bits & kMask) == kNan; }
  static bool IsNan(uint8_t bits) { return IsBad(bits); }
  static uint8_t Mark(uint8_t bits) { return IsBad(bits) ? 0x80 : 0; }
};

// Without branches and in steps of fixed length, so that the compiler makes vector code of it.
template <typename Format>
bool HasBad(const typename Format::Type* bits, int64_t count) {
  using Bits = typename Format::Type;
  constexpr int64_t kStep = 256 / sizeof(Bits);
  Bits marks[kStep] = {};
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int64_t j = 0; j < kStep; ++j) marks[j] = static_cast<Bits>(marks[j] | Format::Mark(bits[i + j]));
  }
  Bits any = 0;
  for (; i < count; ++i) any = static_cast<Bits>(any | Format::Mark(bits[i]));
  for (const Bits mark : marks) any = static_cast<Bits>(any | mark);
  return (any >> (8 * sizeof(Bits) - 1)) != 0;
}

template <typename Format, int kParts>
void CountBlock(const typename Format::Type* bits, int64_t begin, int64_t end, NonFiniteChecks checks,
                NonFinite& found) {
  for (int64_t i = begin; i < end; ++i) {
    bool nan = false;
    bool infinite = false;
    for (int64_t part = i * kParts; part < (i + 1) * kParts; ++part) {
      nan |= Format::IsNan(bits[part]);
      infinite |= Format::IsBad(bits[part]) && !Format::IsNan(bits[part]);
    }
    if (!nan && !infinite) continue;
    ++(nan ? found.nan : found.infinite);
    if (found.first < 0 && ((nan && checks.nan) || (infinite && checks.infinite))) {
      found.first = i;
      found.first_is_nan = nan && checks.nan;
    }
  }
}

template <typename Format, int kParts = 1>
NonFinite Count(const callout_buffer& buffer, NonFiniteChecks checks) {
  constexpr int64_t kBlock = 4096;  // elements: a bad one costs a second look at its neighbours only
  const auto* bits = static_cast<const typename Format::Type*>(buffer.data);
  const int64_t count = ElementCount(buffer);
  NonFinite found;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    if (HasBad<Format>(bits + begin * kParts, (end - begin) * kParts)) {
      CountBlock<Format, kParts>(bits, begin, end, checks, found);
    }
  }
  return found;
}

using Float32 = Ieee<uint32_t, 0x7F800000, 0x007FFFFF>;
using Float64 = Ieee<uint64_t, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF>;

}  // namespace

NonFinite CountNonFinite(const callout_buffer& buffer, NonFiniteChecks checks) {
  switch (static_cast<DType>(buffer.dtype)) {
    case DType::kFloat32:
      return Count<Float32>(buffer, checks);
    case DType::kFloat64:
      return Count<Float64>(buffer, checks);
    case DType::kComplex64:
      return Count<Float32, 2>(buffer, checks);
    case DType::kComplex128:
      return Count<Float64, 2>(buffer, checks);
    case DType::kFloat16:
      return Count<Ieee<uint16_t, 0x7C00, 0x03FF>>(buffer, checks);
    case DType::kBfloat16:
      return Count<Ieee<uint16_t, 0x7F80, 0x007F>>(buffer, checks);
    case DType::kFloat8E5M2:
      return Count<Ieee<uint8_t, 0x7C, 0x03>>(buffer, checks);
    case DType::kFloat8E4M3:
      return Count<Ieee<uint8_t, 0x78, 0x07>>(buffer, checks);
    case DType::kFloat8E3M4:
      return Count<Ieee<uint8_t, 0x70, 0x0F>>(buffer, checks);
    case DType::kFloat8E4M3Fn:
      return Count<NanOnly<0x7F, 0x7F>>(buffer, checks);
    case DType::kFloat8E4M3B11Fnuz:
    case DType::kFloat8E5M2Fnuz:
    case DType::kFloat8E4M3Fnuz:
      return Count<NanOnly<0xFF, 0x80>>(buffer, checks);
    case DType::kFloat8E8M0Fnu:
      return Count<NanOnly<0xFF, 0xFF>>(buffer, checks);
    default:
      return {};
  }
}

}  // namespace callout::internal
