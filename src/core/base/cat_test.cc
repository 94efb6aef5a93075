// SPDX-License-Identifier: Apache-2.0
#include "core/base/cat.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace callout::internal {
namespace {

TEST(CatTest, TextsOfAllKindsAreJoined) {
  const std::string text = "text";
  const char* const pointer = "pointer";
  EXPECT_EQ(Cat(text, ", ", std::string_view("view"), ',', ' ', pointer), "text, view, pointer");
  EXPECT_EQ(Cat(), "");
  EXPECT_EQ(Cat("", std::string_view()), "");
}

TEST(CatTest, TextsMayHaveZeros) { EXPECT_EQ(Cat(std::string("a\0b", 3), 'c'), std::string("a\0bc", 4)); }

TEST(CatTest, NumbersAreWrittenAsToStringWritesThem) {
  EXPECT_EQ(Cat(std::numeric_limits<int64_t>::min(), ' ', std::numeric_limits<uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(Cat(0, ' ', -1, ' ', 7U, ' ', size_t{8}, ' ', int16_t{-9}), "0 -1 7 8 -9");
}

TEST(CatTest, BytesAreNumbersAndCharactersAreNot) {
  EXPECT_EQ(Cat(uint8_t{200}, ' ', int8_t{-3}, ' ', 'x'), "200 -3 x");
}

TEST(CatTest, TruthValuesFloatsAndPointersAreNoParts) {
  static_assert(!std::is_constructible_v<TextPart, double>);
  static_assert(!std::is_constructible_v<TextPart, bool>);
  static_assert(!std::is_constructible_v<TextPart, const void*>);
}

TEST(JoinTest, SeparatorsAreBetweenElements) {
  EXPECT_EQ(Join(std::vector<int64_t>{2, 3, -1}, ", "), "2, 3, -1");
  EXPECT_EQ(Join(std::vector<std::string>{"", ""}, "/"), "/");
  EXPECT_EQ(Join(std::array<int, 1>{4}, ","), "4");
  EXPECT_EQ(Join(std::vector<int>{}, ","), "");
}

TEST(JoinTest, AFunctionMayWriteTheElements) {
  EXPECT_EQ(Join(std::vector<std::string>{"a", "b"}, " ", [](const std::string& name) { return Cat("'", name, "'"); }),
            "'a' 'b'");
}

}  // namespace
}  // namespace callout::internal
