// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(CheckPayloadTest, SaysWhatAProgramWasTold) {
  const auto text = ParseCheck("1;raise;a%3Bb%25.py:12 in f;2;3,1,2e;x is {value}; lane {lane}");
  ASSERT_THAT(text, IsOk());
  EXPECT_TRUE(text->fails);
  EXPECT_EQ(text->source, "a;b%.py:12 in f");
  EXPECT_EQ(text->num_extents, 2);
  EXPECT_EQ(text->lane_masks, (std::vector<uint32_t>{3, 1, 2}));
  EXPECT_EQ(text->is_elementwise, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(text->format, "x is {value}; lane {lane}");
}

TEST(CheckPayloadTest, WarningsDoNotFail) {
  const auto text = ParseCheck("1;warn;;0;0;");
  ASSERT_THAT(text, IsOk());
  EXPECT_FALSE(text->fails);
  EXPECT_EQ(text->source, "");
  EXPECT_EQ(text->format, "");
}

struct Bad {
  std::string payload;
  std::string why;
};

class BadPayloadTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadPayloadTest, IsRefused) {
  EXPECT_THAT(ParseCheck(GetParam().payload).status(), StatusIs(StatusCode::kInvalidArgument, GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Payloads, BadPayloadTest,
    ::testing::Values(
        Bad{"", "with 6 fields"}, Bad{"1;raise;;0;0", "with 6 fields"},
        Bad{"2;raise;;0;0;", "of the format 1, got '2'"}, Bad{"1;shout;;0;0;", "with 'raise' or 'warn', got 'shout'"},
        Bad{"1;raise;%4;0;0;", "whose '%' stand before two digits"},
        Bad{"1;raise;%zz;0;0;", "whose '%' stand before two digits"},
        Bad{"1;raise;;17;0;", "with extents of 0 to 16, got '17'"},
        Bad{"1;raise;;-1;0;", "with extents of 0 to 16, got '-1'"}, Bad{"1;raise;;1;2;", "masks of 1 extents, got '2'"},
        Bad{"1;raise;;1;;", "masks of 1 extents, got ''"}, Bad{"1;raise;;1;0,;", "masks of 1 extents, got '0,'"},
        Bad{"1;raise;;1;0,e;", "masks of 1 extents, got '0,e'"}, Bad{"1;raise;;1;4294967296;", "masks of 1 extents"},
        Bad{"1;raise;;0;0;{", "a '{' without its '}'"},
        Bad{"1;raise;;0;0;" + std::string((1 << 16) + 1, 'x'), "with text of at most 65536 bytes"}));

TEST(CheckPayloadTest, OperandsAreBounded) {
  std::string masks = "0";
  for (int i = 0; i < 1024; ++i) masks += ",0";
  EXPECT_THAT(ParseCheck("1;raise;;0;" + masks + ";").status(), StatusIs(StatusCode::kInvalidArgument, "masks"));
  masks.resize(masks.size() - 2);
  EXPECT_THAT(ParseCheck("1;raise;;0;" + masks + ";"), IsOk());
}

}  // namespace
}  // namespace callout::internal
