// SPDX-License-Identifier: Apache-2.0
#include "libraries/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callout::software_gpu {
namespace {

template <typename Format>
class SmallFloatTest : public testing::Test {};
using Formats = testing::Types<Half, E5M2, E4M3>;
TYPED_TEST_SUITE(SmallFloatTest, Formats);

TYPED_TEST(SmallFloatTest, EveryNumberIsStoredAsItWasLoaded) {
  for (uint32_t bits = 0; bits < 2 * TypeParam::kSign; ++bits) {
    const float value = TypeParam::Load(bits);
    if (std::isnan(value)) continue;
    EXPECT_EQ(TypeParam::Store(value), bits) << value;
  }
}

TYPED_TEST(SmallFloatTest, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < TypeParam::kSign; ++bits) {
    const float below = TypeParam::Load(bits);
    const float above = TypeParam::Load(bits + 1);
    if (!std::isfinite(below) || !std::isfinite(above) || above <= below) continue;
    const float middle = below + (above - below) / 2;
    EXPECT_EQ(TypeParam::Store(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(TypeParam::Store(std::nextafter(middle, below)), bits);
    EXPECT_EQ(TypeParam::Store(std::nextafter(middle, above)), bits + 1);
  }
}

TEST(HalfTest, HasTheNumbersOfIeee754) {
  EXPECT_EQ(Half::Load(0x3c00), 1.0F);
  EXPECT_EQ(Half::Load(0xc000), -2.0F);
  EXPECT_EQ(Half::Load(0x7bff), 65504.0F);
  EXPECT_EQ(Half::Load(0x0001), 0x1p-24F);
  EXPECT_TRUE(std::isinf(Half::Load(0x7c00)));
  EXPECT_EQ(Half::Store(65520.0F), 0x7c00U);
  EXPECT_EQ(Half::Store(65519.0F), 0x7bffU);
}

TEST(E4M3Test, HasNoInfinities) {
  EXPECT_EQ(E4M3::Load(0x7e), 448.0F);
  EXPECT_TRUE(std::isnan(E4M3::Load(0x7f)));
  EXPECT_EQ(E4M3::Load(0x01), 0x1p-9F);
  EXPECT_EQ(E4M3::Store(1e9F), 0x7eU);
  EXPECT_EQ(E4M3::Store(-std::numeric_limits<float>::infinity()), 0xfeU);
}

TEST(E5M2Test, HasTheRangeOfHalf) {
  EXPECT_EQ(E5M2::Load(0x7b), 57344.0F);
  EXPECT_TRUE(std::isinf(E5M2::Load(0x7c)));
}

TEST(Bf16Test, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(StoreBf16(1.0F), 0x3f80);
  EXPECT_EQ(StoreBf16(1.00390625F), 0x3f80);  // a tie
  EXPECT_EQ(StoreBf16(1.01171875F), 0x3f82);  // a tie
  EXPECT_EQ(StoreBf16(std::nextafter(1.00390625F, 2.0F)), 0x3f81);
  EXPECT_TRUE(std::isnan(LoadBf16(StoreBf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace callout::software_gpu
