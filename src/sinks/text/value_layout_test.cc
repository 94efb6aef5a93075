// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/value_layout.h"

#include <gtest/gtest.h>

namespace callout::internal {
namespace {

using Kind = LayoutPiece::Kind;

// "( leaf leaf ... )", `inner` behind the leaves.
std::vector<LayoutPiece> Group(size_t leaves, size_t indent, const std::vector<LayoutPiece>& inner = {},
                               size_t first_leaf = 0) {
  std::vector<LayoutPiece> pieces = {{Kind::kOpen, "", 0}, {Kind::kText, "( ", 0}};
  for (size_t i = 0; i < leaves; ++i) {
    if (i > 0) pieces.push_back({Kind::kBreak, "", indent});
    pieces.push_back({Kind::kLeaf, "", first_leaf + i});
  }
  if (!inner.empty()) pieces.push_back({Kind::kBreak, "", indent});
  pieces.insert(pieces.end(), inner.begin(), inner.end());
  pieces.push_back({Kind::kText, " )", 0});
  pieces.push_back({Kind::kClose, "", 0});
  return pieces;
}

TEST(ValueLayoutTest, OneLineWhereItFits) {
  EXPECT_EQ(LayOut(Group(2, 2), std::vector<std::string>{"1.", "2."}), "( 1. 2. )");
  EXPECT_EQ(LayOut(Group(0, 2), std::vector<std::string>{}), "(  )");
}

TEST(ValueLayoutTest, EightyColumnsFit) {
  const std::vector<std::string> fits = {std::string(40, 'a'), std::string(35, 'b')};
  EXPECT_EQ(LayOut(Group(2, 2), fits).find('\n'), std::string::npos);
  const std::vector<std::string> longer = {std::string(40, 'a'), std::string(36, 'b')};
  EXPECT_EQ(LayOut(Group(2, 2), longer), "( " + longer[0] + "\n  " + longer[1] + " )");
}

TEST(ValueLayoutTest, ColumnsAreCodePoints) {
  std::string umlauts;
  for (int i = 0; i < 40; ++i) umlauts += "\xC3\xA4";
  EXPECT_EQ(LayOut(Group(2, 2), std::vector<std::string>{umlauts, std::string(35, 'b')}).find('\n'), std::string::npos);
}

TEST(ValueLayoutTest, AGroupInsideIsLaidOutByItself) {
  const std::vector<std::string> leaves = {std::string(70, 'a'), "1", "2"};
  EXPECT_EQ(LayOut(Group(1, 2, Group(2, 4, {}, 1)), leaves), "( " + leaves[0] + "\n  ( 1 2 ) )");
}

TEST(ValueLayoutTest, ALeafOfSeveralLinesCountsWhole) {
  const std::vector<std::string> leaves = {std::string(50, 'a') + "\n" + std::string(30, 'a'), "1"};
  EXPECT_EQ(LayOut(Group(2, 2), leaves), "( " + leaves[0] + "\n  1 )");
}

}  // namespace
}  // namespace callout::internal
