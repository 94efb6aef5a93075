// SPDX-License-Identifier: Apache-2.0
#include "sinks/text_output.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace callout::internal {
namespace {

TEST(TerminalTest, ALineIsCutToItsColumns) {
  EXPECT_EQ(FitOnLine("hello", 0), "hello");
  EXPECT_EQ(FitOnLine("hello", 5), "hello");
  EXPECT_EQ(FitOnLine("hello", 4), "hell");
  EXPECT_EQ(FitOnLine("", 3), "");
  EXPECT_EQ(FitOnLine("äöü", 2), "äö");
  EXPECT_EQ(FitOnLine("a\nb\tc", 10), "a b c");
}

TEST(TerminalTest, ColoursTakeNoPlaceAndEnd) {
  const std::string text = "\x1b[1mab\x1b[0m: \x1b[36m12345\x1b[0m";
  EXPECT_EQ(FitOnLine(text, 9), text);
  EXPECT_EQ(FitOnLine(text, 6), "\x1b[1mab\x1b[0m: \x1b[36m12\x1b[0m");
  EXPECT_EQ(FitOnLine("\x1b[36", 6), "\x1b[36\x1b[0m");
}

TEST(TerminalTest, AFileIsNone) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(IsCapableTerminal(fileno(file)));
  EXPECT_FALSE(WantsColours(fileno(file)));
  EXPECT_EQ(TerminalColumns(fileno(file)), 0U);
  std::fclose(file);
}

}  // namespace
}  // namespace callout::internal
