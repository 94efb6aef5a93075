// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/quantile_sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

void Add(std::vector<double> values, QuantileSketch& sketch) {
  Moments moments;
  sketch.Add(moments.Add(values.data(), values.size()));
}

QuantileSketch SketchOf(const std::vector<double>& values) {
  QuantileSketch sketch;
  Add(values, sketch);
  return sketch;
}

// Expects every quantile to lie between its two neighbours among the elements, within the error.
void ExpectWithinError(const QuantileSketch& sketch, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double error = sketch.relative_error() * (1 + 1e-12);
  for (int percent = 0; percent <= 100; ++percent) {
    const double rank = percent / 100.0 * static_cast<double>(values.size() - 1);
    const double low = values[static_cast<size_t>(rank)];
    const double high = values[std::min(static_cast<size_t>(rank) + 1, values.size() - 1)];
    const double exact = std::lerp(low, high, rank - std::floor(rank));
    const double tolerance = error * std::max({std::abs(low), std::abs(high), std::numeric_limits<double>::min()});
    EXPECT_NEAR(sketch.Quantile(percent / 100.0), exact, tolerance) << percent;
  }
}

std::vector<double> Random(size_t count, const std::function<double(std::mt19937&)>& draw) {
  std::mt19937 random(11);
  std::vector<double> values(count);
  for (double& value : values) value = draw(random);
  return values;
}

TEST(QuantileSketchTest, NothingHasNoQuantiles) {
  const QuantileSketch sketch;
  EXPECT_TRUE(std::isnan(sketch.Quantile(0.5)));
  const std::vector<double> edges = {0, 1};
  EXPECT_THAT(sketch.CountsBelow(edges), ElementsAre(0, 0));
}

TEST(QuantileSketchTest, TheEndsAreExact) {
  const QuantileSketch sketch = SketchOf({0.1, -7.3, 2.2});
  EXPECT_EQ(sketch.Quantile(0), -7.3);
  EXPECT_EQ(sketch.Quantile(1), 2.2);
  EXPECT_EQ(SketchOf({0.1}).Quantile(0.5), 0.1);
}

TEST(QuantileSketchTest, ANarrowSpreadHasASmallError) {
  const auto values =
      Random(10'000, [](auto& random) { return std::uniform_real_distribution<>(2.30, 2.3001)(random); });
  const QuantileSketch sketch = SketchOf(values);
  EXPECT_LT(sketch.relative_error(), 1e-6);
  ExpectWithinError(sketch, values);
}

TEST(QuantileSketchTest, AWideSpreadHasALargerOneThatIsKnown) {
  const auto gradients = Random(100'000, [](auto& random) { return std::normal_distribution<>(0, 1e-3)(random); });
  const QuantileSketch sketch = SketchOf(gradients);
  EXPECT_LE(sketch.relative_error(), 0.01);
  ExpectWithinError(sketch, gradients);
  const auto wide = Random(10'000, [](auto& random) {
    return std::ldexp(1 - static_cast<double>(random() % 3), static_cast<int>(random() % 2000) - 1000);
  });
  ExpectWithinError(SketchOf(wide), wide);
  EXPECT_LE(SketchOf(wide).relative_error(), 0.5);
}

TEST(QuantileSketchTest, ZerosAndBothSignsAreInTheirOrder) {
  std::vector<double> values = {0, 0, -0.0, 5e-324, -5e-324, 1, -1, 1e308, -1e308, 1e-310, 3};
  ExpectWithinError(SketchOf(values), values);
  EXPECT_EQ(SketchOf({-1, 0, 0, 0, 2}).Quantile(0.5), 0);
  EXPECT_EQ(SketchOf({0, 0}).Quantile(0.3), 0);
}

TEST(QuantileSketchTest, ItGrowsWithItsData) {
  QuantileSketch sketch;
  std::vector<double> all;
  for (int exponent = 0; exponent < 60; ++exponent) {
    const std::vector<double> values = {std::ldexp(1.1, exponent), -std::ldexp(1.7, -exponent)};
    Add(values, sketch);
    all.insert(all.end(), values.begin(), values.end());
    ExpectWithinError(sketch, all);
  }
}

TEST(QuantileSketchTest, PartsTogetherAreTheWholeInAnyOrder) {
  const auto values = Random(5000, [](auto& random) { return std::lognormal_distribution<>(0, 9)(random) - 1; });
  std::vector<QuantileSketch> parts;
  for (size_t begin = 0; begin < values.size(); begin += 500) {
    parts.push_back(SketchOf({values.begin() + static_cast<std::ptrdiff_t>(begin),
                              values.begin() + static_cast<std::ptrdiff_t>(begin) + 500}));
  }
  for (const bool backwards : {false, true}) {
    QuantileSketch merged;
    if (backwards) std::reverse(parts.begin(), parts.end());
    for (const QuantileSketch& part : parts) merged.Merge(part);
    merged.Merge(QuantileSketch());
    merged.Merge(SketchOf({0}));
    EXPECT_EQ(merged.count(), 5001U);
    auto all = values;
    all.push_back(0);
    ExpectWithinError(merged, all);
  }
}

TEST(QuantileSketchTest, CountsOfNumbersWithFewDigitsAreExact) {
  const QuantileSketch sketch = SketchOf({-2, -2, -1, 0, 0, 0, 1, 2.5, 3, 3});
  const std::vector<double> edges = {-3, -2, -1.5, -1, 0, 1, 2, 3, 4};
  EXPECT_THAT(sketch.CountsBelow(edges), ElementsAre(0, 0, 2, 2, 3, 6, 7, 8, 10));
}

TEST(QuantileSketchTest, NumbersOfFewDigitsAreExact) {
  std::vector<double> values;
  for (int i = -40; i < 60; ++i) values.push_back(0.25 * i);
  QuantileSketch sketch = SketchOf(values);
  EXPECT_EQ(sketch.relative_error(), 0);
  ExpectWithinError(sketch, values);
  sketch.Merge(SketchOf({0.1}));
  values.push_back(0.1);
  EXPECT_GT(sketch.relative_error(), 0);
  ExpectWithinError(sketch, values);
}

TEST(QuantileSketchTest, CountsAreOffByWhatLiesBesideAnEdgeOnly) {
  auto values = Random(20'000, [](auto& random) { return std::normal_distribution<>(0.2, 1)(random); });
  const QuantileSketch sketch = SketchOf(values);
  std::vector<double> edges;
  for (int i = -40; i <= 40; ++i) edges.push_back(0.1 * i);
  const std::vector<double> below = sketch.CountsBelow(edges);
  std::sort(values.begin(), values.end());
  const auto exact_below = [&](double edge) {
    return static_cast<double>(std::lower_bound(values.begin(), values.end(), edge) - values.begin());
  };
  for (size_t i = 0; i < edges.size(); ++i) {
    const double reach = 2 * sketch.relative_error() * std::abs(edges[i]) + 1e-300;
    EXPECT_GE(below[i], exact_below(edges[i] - reach)) << edges[i];
    EXPECT_LE(below[i], exact_below(edges[i] + reach)) << edges[i];
  }
  EXPECT_TRUE(std::is_sorted(below.begin(), below.end()));
}

}  // namespace
}  // namespace callout::internal
