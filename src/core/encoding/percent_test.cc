// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/percent.h"

#include <gtest/gtest.h>

namespace callout::internal {
namespace {

TEST(PercentTest, TwoHexadecimalDigitsAreAByte) {
  EXPECT_EQ(HexByte("2C"), ',');
  EXPECT_EQ(HexByte("2cx"), ',');
  EXPECT_EQ(HexByte("ff"), '\xff');
  for (const char* none : {"", "2", "g0", "0g", "-1", "+1", "0x", " 1"}) EXPECT_EQ(HexByte(none), std::nullopt) << none;
}

TEST(PercentTest, BytesTakeTheirPlaces) {
  EXPECT_EQ(PercentDecoded(""), "");
  EXPECT_EQ(PercentDecoded("a%3Bb%25;%C3%A4"), "a;b%;\xc3\xa4");
  EXPECT_EQ(PercentDecoded("%2541"), "%41");
  for (const char* wrong : {"%", "a%4", "%4;", "%%41"}) EXPECT_EQ(PercentDecoded(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace callout::internal
