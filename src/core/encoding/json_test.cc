// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace callout::internal {
namespace {

TEST(JsonTest, ReadsEveryKindOfValue) {
  const auto json = ParseJson(" {\"a\": [1, -2.5e1, true, false, null], \"b\\n\\u00e9\\ud83d\\ude00\": \"x\\\"\"} ");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ((*json)["a"][0].Integer(), 1);
  EXPECT_EQ((*json)["a"][1].number, -25);
  EXPECT_EQ((*json)["a"][1].Integer(), std::nullopt);
  EXPECT_TRUE((*json)["a"][2].boolean);
  EXPECT_EQ((*json)["a"][4].kind, Json::Kind::kNull);
  EXPECT_EQ((*json)["b\n\xc3\xa9\xf0\x9f\x98\x80"].text, "x\"");
  EXPECT_EQ(json->Find("c"), nullptr);
  EXPECT_EQ((*json)["a"].Find("c"), nullptr);
}

TEST(JsonTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "01", "1.", "-", "1e", "\"\x01\"", "\"", "\"\\", "\"\\x\"", "\"\\u12\"",
        "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "nul", "1 2", "{1:2}"}) {
    EXPECT_FALSE(ParseJson(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseJson(std::string(60, '[') + std::string(60, ']')).has_value());
  EXPECT_FALSE(ParseJson(std::string(100'000, '[')).has_value()) << "the stack is not theirs";
  EXPECT_EQ(ParseJson("9223372036854775808")->Integer(), std::nullopt);
}

TEST(JsonTest, WritesNoByteThatIsNotUtf8) {
  std::string text;
  AppendJsonString("a\xff\x80", text);
  AppendJsonString("\xc3\xa9", text);
  EXPECT_EQ(text, "\"a\\ufffd\\ufffd\"\"\xc3\xa9\"");
}

}  // namespace
}  // namespace callout::internal
