// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace callout::internal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Moments Of(std::vector<double> values) {
  Moments moments;
  moments.Add(values.data(), values.size());
  return moments;
}

TEST(MomentsTest, NothingIsCountedOfNothing) {
  const Moments moments = Of({});
  EXPECT_EQ(moments.count(), 0U);
  EXPECT_EQ(moments.sum(), 0);
  EXPECT_TRUE(std::isnan(moments.mean()));
  EXPECT_TRUE(std::isnan(moments.variance()));
  EXPECT_TRUE(std::isnan(moments.min()));
  EXPECT_TRUE(std::isnan(moments.max()));
}

TEST(MomentsTest, OneElement) {
  const Moments moments = Of({-2.5});
  EXPECT_EQ(moments.count(), 1U);
  EXPECT_EQ(moments.mean(), -2.5);
  EXPECT_EQ(moments.variance(), 0);
  EXPECT_EQ(moments.min(), -2.5);
  EXPECT_EQ(moments.max(), -2.5);
}

// Tests lengths around the size of a block.
TEST(MomentsTest, AgreesWithTheDefinitionAtEveryLength) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(100, 3);
  for (size_t n = 1; n < 70; ++n) {
    std::vector<double> values(n);
    for (double& value : values) value = normal(random);
    values[n / 2] = 0;
    long double sum = 0, squares = 0;
    for (const double value : values) sum += value;
    for (const double value : values) squares += (value - sum / n) * (value - sum / n);
    const Moments moments = Of(values);
    EXPECT_NEAR(moments.sum(), static_cast<double>(sum), 1e-8) << n;
    EXPECT_NEAR(moments.variance(), static_cast<double>(squares / n), 1e-10 * moments.variance()) << n;
    EXPECT_EQ(moments.zeros(), 1U);
    EXPECT_EQ(moments.min(), 0);
  }
}

TEST(MomentsTest, WhatIsNoNumberIsCountedApart) {
  std::vector<double> values = {1, kNan, kInfinity, 0, -kInfinity, -0.0, kInfinity, 3, kNan, kNan, 2};
  Moments moments;
  const Part part = moments.Add(values.data(), values.size());
  EXPECT_EQ(part.count, 5U);
  EXPECT_EQ(std::vector<double>(part.values, part.values + part.count), (std::vector<double>{1, 0, 0, 3, 2}));
  EXPECT_EQ(part.least_magnitude, 1);
  EXPECT_EQ(moments.count(), 5U);
  EXPECT_EQ(moments.nans(), 3U);
  EXPECT_EQ(moments.positive_infinities(), 2U);
  EXPECT_EQ(moments.negative_infinities(), 1U);
  EXPECT_EQ(moments.zeros(), 2U);
  EXPECT_EQ(moments.sum(), 6);
  EXPECT_EQ(moments.min(), 0);
  EXPECT_EQ(moments.max(), 3);
}

TEST(MomentsTest, NothingButNan) {
  const Moments moments = Of({kNan, kNan, kNan});
  EXPECT_EQ(moments.count(), 0U);
  EXPECT_EQ(moments.nans(), 3U);
  EXPECT_TRUE(std::isnan(moments.standard_deviation()));
}

TEST(MomentsTest, LargeNumbersWithASmallSpreadKeepIt) {
  const Moments moments = Of({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16});
  EXPECT_EQ(moments.mean(), 1e9 + 10);
  EXPECT_EQ(moments.variance(), 22.5);
}

TEST(MomentsTest, NeitherHugeNorSubnormalNumbersSpoilTheDeviation) {
  EXPECT_DOUBLE_EQ(Of({1e300, 3e300}).standard_deviation(), 1e300);
  EXPECT_DOUBLE_EQ(Of({1e308, 1.5e308}).mean(), 1.25e308);
  EXPECT_EQ(Of({1e300, 3e300}).variance(), kInfinity);  // The variance exceeds the range of a double.
  EXPECT_DOUBLE_EQ(Of({4e-320, 8e-320}).standard_deviation(), 2e-320);
  EXPECT_EQ(Of({5e-324}).zeros(), 0U);
}

TEST(MomentsTest, PartsTogetherAreTheWhole) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> values_of(0, 4);
  std::vector<double> values(10'000);
  for (double& value : values) value = values_of(random);
  values[5] = kNan;
  const Moments whole = Of(values);
  Moments parts, empty;
  for (size_t begin = 0, size = 1; begin < values.size(); begin += size, size = 2 * size + 1) {
    const size_t end = std::min(begin + size, values.size());
    parts.Merge(
        Of({values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end)}));
    parts.Merge(empty);
  }
  EXPECT_EQ(parts.count(), whole.count());
  EXPECT_EQ(parts.nans(), 1U);
  EXPECT_EQ(parts.min(), whole.min());
  EXPECT_EQ(parts.max(), whole.max());
  EXPECT_NEAR(parts.sum() / whole.sum(), 1, 1e-13);
  EXPECT_NEAR(parts.variance() / whole.variance(), 1, 1e-13);
}

}  // namespace
}  // namespace callout::internal
