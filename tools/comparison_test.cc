// SPDX-License-Identifier: Apache-2.0
#include "comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "array_spec.h"
#include "testing/status_matchers.h"
#include "times.h"

namespace callout::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Comparison Of(const std::string& expected, const std::string& got, const Tolerances& tolerances = {}) {
  auto one = ParseSpec(expected), other = ParseSpec(got);
  EXPECT_TRUE(one.ok() && other.ok());
  return Compare(*one, *other, tolerances, "x.npy");
}

TEST(ComparisonTest, TellsWhereWhatAndHowMuch) {
  const Comparison comparison = Of("f32[2,2]=1,2,4,0", "f32[2,2]=1,2,5,0.5");
  EXPECT_FALSE(comparison.equal);
  EXPECT_EQ(comparison.differing, 2);
  EXPECT_THAT(comparison.index, ElementsAre(1, 0));
  EXPECT_EQ(comparison.max_absolute_error, 1);
  EXPECT_EQ(comparison.max_relative_error, 0.25);
  EXPECT_EQ(ToText(3, comparison),
            "result 3, f32[2,2], differs from 'x.npy': 2 of 4 elements differ; the first at [1,0]: expected 4, got 5; "
            "max error 1, relative 0.25 (rtol 1e-05, atol 1e-08)");
  std::string json;
  AppendJson(comparison, json);
  EXPECT_THAT(json, HasSubstr(R"("differing": 2, "max_absolute_error": 1, "max_relative_error": 0.25, "index": [1,0],)"
                              R"( "expected": 4, "got": 5})"));
  EXPECT_EQ(ToText(0, Of("f32[2]=1,2", "f64[3]=1")), "result 0 differs from 'x.npy': expected f32[2], got f64[3]");
}

TEST(ComparisonTest, TolerancesAreAddedAndOnlyFloatsHaveThemByDefault) {
  EXPECT_TRUE(Of("f32[1]=1000", "f32[1]=1000.001").equal);
  EXPECT_FALSE(Of("f32[1]=1000", "f32[1]=1000.1").equal);
  EXPECT_TRUE(Of("f32[1]=1000", "f32[1]=1000.1", {.relative = 1e-3}).equal);
  EXPECT_FALSE(Of("f32[1]=0", "f32[1]=0.1", {.relative = 1e-3}).equal);
  EXPECT_TRUE(Of("f32[1]=0", "f32[1]=0.1", {.absolute = 0.2}).equal);
  EXPECT_FALSE(Of("f32[1]=1", "f32[1]=1.0000001", {.relative = 0, .absolute = 0}).equal);
  EXPECT_TRUE(Of("bf16[1]=1", "bf16[1]=1.0078125", {.relative = 1e-2}).equal);
  EXPECT_TRUE(Of("c64[1]=3+4j", "c64[1]=3+4.04j", {.relative = 1e-2}).equal);
  // No double equals 2^53 + 1.
  EXPECT_FALSE(Of("s64[1]=9007199254740993", "s64[1]=9007199254740992").equal);
  EXPECT_FALSE(Of("u64[1]=18446744073709551615", "u64[1]=18446744073709551614").equal);
  EXPECT_EQ(Of("s64[1]=-9223372036854775808", "s64[1]=-9223372036854775807").max_absolute_error, 1);
  EXPECT_TRUE(Of("s32[1]=100", "s32[1]=101", {.absolute = 1}).equal);
  EXPECT_EQ(Of("s4[2]=-8,7", "s4[2]=7,7").max_absolute_error, 15);
  EXPECT_FALSE(Of("bool[1]=1", "bool[1]=0").equal);
}

TEST(ComparisonTest, NanAndInfinitiesAreAsExpectedWhereTheyAreExpected) {
  EXPECT_TRUE(Of("f32[4]=nan,inf,-inf,0", "f32[4]=nan,inf,-inf,-0").equal);
  const Tolerances generous = {.relative = 1e30, .absolute = 1e30};
  for (const auto& [expected, got] : {std::pair("f32[1]=nan", "f32[1]=1"), std::pair("f32[1]=1", "f32[1]=nan"),
                                      std::pair("f32[1]=inf", "f32[1]=1"), std::pair("f32[1]=inf", "f32[1]=-inf"),
                                      std::pair("f32[1]=0", "f32[1]=inf"), std::pair("f32[1]=nan", "f32[1]=inf")}) {
    EXPECT_FALSE(Of(expected, got, generous).equal) << expected << " " << got;
  }
  std::string json;
  AppendJson(Of("f32[1]=nan", "f32[1]=1"), json);
  EXPECT_THAT(json, HasSubstr(R"("max_absolute_error": "Infinity", "max_relative_error": "Infinity",)"));
  EXPECT_THAT(json, HasSubstr(R"("expected": "NaN", "got": 1)"));
}

TEST(TimesTest, PercentilesAreOfTheNearestRank) {
  std::vector<int64_t> sorted;
  for (int64_t i = 1; i <= 200; ++i) sorted.push_back(i);
  EXPECT_EQ(Percentile(sorted, 50), 100);
  EXPECT_EQ(Percentile(sorted, 90), 180);
  EXPECT_EQ(Percentile(sorted, 99), 198);
  EXPECT_EQ(Percentile({7}, 99), 7);
  EXPECT_EQ((Times{{5, 5}, 1'000'000'000}).RunsPerSecond(), 2);
}

}  // namespace
}  // namespace callout::tools
