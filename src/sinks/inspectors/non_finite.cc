// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/non_finite.h"

#include <algorithm>

#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

// Formats with infinities: NaN and infinities have all exponent bits set, and infinities have a zero fraction.
template <typename T>
struct Ieee {
  using Bits = T;
  Bits exponent;
  Bits fraction;
  bool IsBad(Bits bits) const { return (bits & exponent) == exponent; }
  bool IsNan(Bits bits) const { return IsBad(bits) && (bits & fraction) != 0; }
  // Sets the top bit if the number is bad: adding one at the exponent's lowest bit then carries through all exponent
  // bits.
  Bits Mark(Bits bits) const { return static_cast<Bits>((bits & exponent) + (fraction + 1)); }
};

// Formats without infinities: one bit pattern is NaN. If `mask` leaves out the sign, either sign is.
template <typename T>
struct NanOnly {
  using Bits = T;
  Bits mask;
  Bits nan;
  bool IsBad(Bits bits) const { return (bits & mask) == nan; }
  bool IsNan(Bits bits) const { return IsBad(bits); }
  Bits Mark(Bits bits) const { return IsBad(bits) ? static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1)) : Bits{0}; }
};

// Has neither branches nor steps of varying length, so that compilers vectorize the loop.
template <typename Format>
bool HasBad(const Format& format, const typename Format::Bits* bits, int64_t count) {
  using Bits = typename Format::Bits;
  constexpr int64_t kStep = 64 / sizeof(Bits);  // The marks stay in registers.
  Bits marks[kStep] = {};
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int64_t j = 0; j < kStep; ++j) marks[j] = static_cast<Bits>(marks[j] | format.Mark(bits[i + j]));
  }
  Bits any = 0;
  for (; i < count; ++i) any = static_cast<Bits>(any | format.Mark(bits[i]));
  for (const Bits mark : marks) any = static_cast<Bits>(any | mark);
  return (any >> (8 * sizeof(Bits) - 1)) != 0;
}

template <int kParts, typename Format>
void CountBlock(const Format& format, const typename Format::Bits* bits, int64_t begin, int64_t end,
                NonFiniteChecks checks, NonFinite& found) {
  for (int64_t i = begin; i < end; ++i) {
    bool nan = false;
    bool infinite = false;
    for (int64_t part = i * kParts; part < (i + 1) * kParts; ++part) {
      nan |= format.IsNan(bits[part]);
      infinite |= format.IsBad(bits[part]) && !format.IsNan(bits[part]);
    }
    if (!nan && !infinite) continue;
    ++(nan ? found.nan : found.infinite);
    if (found.first < 0 && ((nan && checks.nan) || (infinite && checks.infinite))) {
      found.first = i;
      found.first_is_nan = nan && checks.nan;
    }
  }
}

template <int kParts, typename Format>
NonFinite Count(const callout_buffer& buffer, const Format& format, NonFiniteChecks checks) {
  constexpr int64_t kBlock = 4096;  // In elements. A bad element costs a second pass over its block only.
  const auto* bits = static_cast<const typename Format::Bits*>(buffer.data);
  const int64_t count = ElementCount(buffer);
  NonFinite found;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    if (HasBad(format, bits + begin * kParts, (end - begin) * kParts)) {
      CountBlock<kParts>(format, bits, begin, end, checks, found);
    }
  }
  return found;
}

constexpr Ieee<uint32_t> kFloat32 = {0x7F800000, 0x007FFFFF};
constexpr Ieee<uint64_t> kFloat64 = {0x7FF0000000000000, 0x000FFFFFFFFFFFFF};

template <typename Bits>
NonFinite CountSmall(const callout_buffer& buffer, const SmallFloatFormat& format, NonFiniteChecks checks) {
  const int below_sign = format.exponent_bits + format.mantissa_bits;
  const auto ones = [](int bits) { return static_cast<Bits>((uint32_t{1} << bits) - 1); };
  const Bits fraction = ones(format.mantissa_bits);
  const auto sign = static_cast<Bits>(uint32_t{1} << below_sign);
  const auto any = static_cast<Bits>(ones(below_sign) | sign);
  switch (format.specials) {
    case FloatSpecials::kIeee:
      return Count<1>(buffer, Ieee<Bits>{static_cast<Bits>(ones(below_sign) & ~fraction), fraction}, checks);
    case FloatSpecials::kNanAtTop:
      return Count<1>(buffer, NanOnly<Bits>{ones(below_sign), ones(below_sign)}, checks);
    case FloatSpecials::kNanAtNegativeZero:
      return Count<1>(buffer, NanOnly<Bits>{any, sign}, checks);
    case FloatSpecials::kPowerOfTwo:
      return Count<1>(buffer, NanOnly<Bits>{ones(below_sign), ones(below_sign)}, checks);
    case FloatSpecials::kAllNumbers:
      break;
  }
  return {};
}

}  // namespace

NonFinite CountNonFinite(const callout_buffer& buffer, NonFiniteChecks checks) {
  const DTypeRow& row = RowOf(static_cast<DType>(buffer.dtype));
  if (row.kind == DTypeKind::kComplex) {
    return row.bits == 64 ? Count<2>(buffer, kFloat32, checks) : Count<2>(buffer, kFloat64, checks);
  }
  if (row.kind != DTypeKind::kFloat || row.bits < 8) return {};
  if (row.bits == 64) return Count<1>(buffer, kFloat64, checks);
  if (row.bits == 32) return Count<1>(buffer, kFloat32, checks);
  if (row.bits == 16) return CountSmall<uint16_t>(buffer, row.format, checks);
  return CountSmall<uint8_t>(buffer, row.format, checks);
}

}  // namespace callout::internal
