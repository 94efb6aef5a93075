// SPDX-License-Identifier: Apache-2.0
#include "ptx/floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ptx/evaluate.h"
#include "ptx/slow_floats.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr Rounding kModes[] = {Rounding::kRn, Rounding::kRz, Rounding::kRm, Rounding::kRp, Rounding::kRna};

template <Type type>
void ExpectDecodes() {
  constexpr Format kFormat = FormatOf<type>();
  for (uint64_t bits = 0; bits < uint64_t{1} << kFormat.bits(); ++bits) {
    const double expected = SlowValue(kFormat, bits);
    const double value = Decode<type>(bits << kFormat.unused);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << bits;
      ASSERT_EQ(Encode<type>(value), ((kFormat.nan() + 1) << kFormat.unused) - 1);
    } else {
      ASSERT_EQ(D(value), D(expected)) << std::hex << bits;
      ASSERT_EQ(Encode<type>(value), bits << kFormat.unused) << std::hex << bits;
    }
  }
}

TEST(FloatsTest, EveryValueOfAFormatIsDecodedAndEncoded) {
  ExpectDecodes<Type::kF16>();
  ExpectDecodes<Type::kBf16>();
  ExpectDecodes<Type::kTf32>();
  ExpectDecodes<Type::kE4m3>();
  ExpectDecodes<Type::kE5m2>();
}

template <Type type>
void ExpectRounds(std::mt19937_64& random) {
  constexpr Format kFormat = FormatOf<type>();
  for (int i = 0; i < 20000; ++i) {
    // The value is one of the format, with a few more bits and a small rest or none: this gives values, ties and their
    // neighbours.
    const uint64_t bits = random();
    const double base = SlowValue(kFormat, bits & kFormat.nan());
    if (std::isnan(base) || std::isinf(base)) continue;
    double value = base * (1 + std::ldexp(static_cast<double>(bits >> 60), -kFormat.fraction_bits - 3));
    if ((bits >> 59 & 1) != 0) value = std::nextafter(value, (bits >> 58 & 1) != 0 ? 1e300 : 0);
    if ((bits >> 57 & 1) != 0) value = -value;
    for (const Rounding rounding : kModes) {
      const double expected = SlowRound(kFormat, value, rounding);
      const double result = Decode<type>(Encode<type>(value, rounding));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(result)) << value;
      } else {
        ASSERT_EQ(D(result), D(expected)) << value << " in mode " << static_cast<int>(rounding);
      }
    }
  }
}

TEST(FloatsTest, RoundingIsThatOfArithmeticInEveryMode) {
  std::mt19937_64 random(1);
  ExpectRounds<Type::kF16>(random);
  ExpectRounds<Type::kBf16>(random);
  ExpectRounds<Type::kTf32>(random);
  ExpectRounds<Type::kE4m3>(random);
  ExpectRounds<Type::kE5m2>(random);
  ExpectRounds<Type::kF32>(random);
}

TEST(FloatsTest, TiesAndOverflowsAreAsTheModeSays) {
  const double tie = 1 + 0x1p-11;
  EXPECT_EQ(Encode<Type::kF16>(tie, Rounding::kRn), 0x3c00U);
  EXPECT_EQ(Encode<Type::kF16>(1 + 3 * 0x1p-11, Rounding::kRn), 0x3c02U);
  EXPECT_EQ(Encode<Type::kF16>(tie, Rounding::kRna), 0x3c01U);
  EXPECT_EQ(Encode<Type::kF16>(tie, Rounding::kRp), 0x3c01U);
  EXPECT_EQ(Encode<Type::kF16>(tie, Rounding::kRm), 0x3c00U);
  EXPECT_EQ(Encode<Type::kF16>(-tie, Rounding::kRm), 0xbc01U);
  EXPECT_EQ(Encode<Type::kF16>(-tie, Rounding::kRp), 0xbc00U);
  EXPECT_EQ(Encode<Type::kF16>(65519), 0x7bffU);
  EXPECT_EQ(Encode<Type::kF16>(65520), 0x7c00U);
  EXPECT_EQ(Encode<Type::kF16>(1e300, Rounding::kRz), 0x7bffU);
  EXPECT_EQ(Encode<Type::kF16>(-1e300, Rounding::kRp), 0xfbffU);
  EXPECT_EQ(Encode<Type::kF16>(-1e300, Rounding::kRm), 0xfc00U);
  EXPECT_EQ(Encode<Type::kF16>(-INFINITY, Rounding::kRn, true), 0xfbffU);
  EXPECT_EQ(Encode<Type::kF16>(1e-300, Rounding::kRp), 1U);
  EXPECT_EQ(Encode<Type::kF16>(1e-300, Rounding::kRn), 0U);
  EXPECT_EQ(Encode<Type::kF16>(-5e-324, Rounding::kRm), 0x8001U);
  EXPECT_EQ(Encode<Type::kF16>(0x1p-25), 0U);
  EXPECT_EQ(Encode<Type::kF16>(0x1.8p-25), 1U);
  EXPECT_EQ(Encode<Type::kE4m3>(464), 0x7eU);
  EXPECT_EQ(Encode<Type::kE4m3>(465), 0x7fU);
  EXPECT_EQ(Encode<Type::kE4m3>(465, Rounding::kRn, true), 0x7eU);
  EXPECT_EQ(Encode<Type::kE4m3>(-INFINITY, Rounding::kRn, true), 0xfeU);
  EXPECT_EQ(Encode<Type::kE5m2>(INFINITY), 0x7cU);
  EXPECT_EQ(Encode<Type::kE5m2>(1e9, Rounding::kRn, true), 0x7bU);
  EXPECT_EQ(Encode<Type::kF32>(1e300, Rounding::kRz), 0x7f7fffffU);
  EXPECT_EQ(Encode<Type::kF32>(1e300, Rounding::kRn, true), 0x7f7fffffU);
  EXPECT_EQ(Encode<Type::kF32>(-1e-60, Rounding::kRm), 0x80000001U);
  EXPECT_EQ(Encode<Type::kF32>(-INFINITY, Rounding::kRz), 0xff800000U);
}

TEST(FloatsTest, OddSumsKeepWhatRoundingWouldLose) {
  EXPECT_EQ(AddToOdd(1, 0x1p-100), 1 + 0x1p-52);
  EXPECT_EQ(AddToOdd(1, -0x1p-100), 1 - 0x1p-53);
  EXPECT_EQ(AddToOdd(-1, 0x1p-100), -1 + 0x1p-53);
  EXPECT_EQ(AddToOdd(0x1p-100, 1 + 0x1p-52), 1 + 0x1p-52);
  EXPECT_EQ(AddToOdd(1, 2), 3);
  EXPECT_EQ(AddToOdd(INFINITY, -1), INFINITY);
  EXPECT_TRUE(std::isnan(AddToOdd(INFINITY, -INFINITY)));
}

}  // namespace
}  // namespace callout::software_gpu::ptx
