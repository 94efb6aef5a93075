// SPDX-License-Identifier: Apache-2.0
//
// The expected texts are NumPy 2.5's own. tests/python/host_callback/test_numpy_text.py compares with NumPy on random
// arrays.
#include "sinks/text/numpy_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

std::string Text(TestBuffer buffer, NumpyTextOptions options = {}) {
  std::string out;
  return AppendNumpyText(buffer.view(), options, out) ? out : "left to NumPy";
}
std::string Doubles(std::vector<double> values) {
  const auto extent = static_cast<int64_t>(values.size());
  return Text(TestBuffer::Of<double>({extent}, values));
}
TestBuffer Range(std::vector<int64_t> dims, int32_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return TestBuffer::Of<int32_t>(std::move(dims), values);
}

TEST(NumpyTextTest, ScalarsHaveNoPadding) {
  EXPECT_EQ(Text(TestBuffer::Scalar(3.0F)), "3.");
  EXPECT_EQ(Text(TestBuffer::Scalar(int8_t{-3})), "-3");
  EXPECT_EQ(Text(TestBuffer(DType::kBool, {}, {1})), "True");
  EXPECT_EQ(Text(TestBuffer::Scalar(1e-10)), "1.e-10");
  EXPECT_EQ(Text(TestBuffer::Scalar(kNotANumber)), "nan");
  EXPECT_EQ(Text(TestBuffer::Scalar(-kInfinity)), "-inf");
  EXPECT_EQ(Text(TestBuffer::Scalar(-0.0)), "-0.");
}

TEST(NumpyTextTest, WordsAreOfOneWidth) {
  EXPECT_EQ(Text(TestBuffer(DType::kBool, {3}, {1, 0, 1})), "[ True False  True]");
  EXPECT_EQ(Text(TestBuffer::Of<int32_t>({3}, {1, -20, 300})), "[  1 -20 300]");
  EXPECT_EQ(Text(TestBuffer::Of<uint64_t>({1}, {~uint64_t{0}})), "[18446744073709551615]");
  EXPECT_EQ(Doubles({1, 2.5, -3.25}), "[ 1.    2.5  -3.25]");
}

TEST(NumpyTextTest, ExponentsFromWideRanges) {
  EXPECT_EQ(Doubles({1, 1000}), "[   1. 1000.]");
  EXPECT_EQ(Doubles({1, 1001}), "[1.000e+00 1.001e+03]");
  EXPECT_EQ(Doubles({0, 1e-5}), "[0.e+00 1.e-05]");
  EXPECT_EQ(Doubles({1e8}), "[1.e+08]");
  EXPECT_EQ(Doubles({1e-300, -2}), "[ 1.e-300 -2.e+000]");
}

TEST(NumpyTextTest, AtMostEightDigitsOfTheExactValue) {
  EXPECT_EQ(Doubles({0.1234567891}), "[0.12345679]");
  EXPECT_EQ(Doubles({1.0 / 3, 100}), "[  0.33333333 100.        ]");
  EXPECT_EQ(Doubles({0.1 + 0.2}), "[0.3]");
}

TEST(NumpyTextTest, WhatIsNoNumberWidens) {
  EXPECT_EQ(Doubles({kNotANumber, 1}), "[nan  1.]");
  EXPECT_EQ(Doubles({-kInfinity, 1}), "[-inf   1.]");
  EXPECT_EQ(Doubles({kInfinity, 1.25}), "[ inf 1.25]");
  EXPECT_EQ(Doubles({kNotANumber, kNotANumber}), "[nan nan]");
}

TEST(NumpyTextTest, LongLinesAreWrapped) {
  EXPECT_EQ(Text(Range({30}, 30)),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]");
}

TEST(NumpyTextTest, RowsAreIndented) {
  EXPECT_EQ(Text(Range({2, 2}, 4)), "[[0 1]\n [2 3]]");
  EXPECT_EQ(Text(Range({2, 1, 2}, 4)), "[[[0 1]]\n\n [[2 3]]]");
}

TEST(NumpyTextTest, EmptyArrays) {
  EXPECT_EQ(Doubles({}), "[]");
  EXPECT_EQ(Text(TestBuffer::Of<float>({2, 0}, {})), "[]");
}

TEST(NumpyTextTest, TheExponentsOfFloat32DependOnNumPy) {
  const auto million = TestBuffer::Of<float>({1}, {5e6F});
  EXPECT_EQ(Text(million, {.float32_exponents_from = 1e8F}), "[5000000.]");
  EXPECT_EQ(Text(million, {.float32_exponents_from = 1e6F}), "[5.e+06]");
  EXPECT_EQ(Text(TestBuffer::Of<float>({2}, {52926568.F, -16777220.F})), "[ 52926568. -16777220.]");
}

TEST(NumpyTextTest, AboveTheThresholdLongAxesAreCut) {
  EXPECT_EQ(Text(Range({1000}, 1000), {.threshold = 999}), "[  0   1   2 ... 997 998 999]");
  EXPECT_EQ(Text(Range({6}, 6), {.threshold = 3}), "[0 1 2 3 4 5]");
  EXPECT_EQ(Text(Range({7, 2}, 14), {.threshold = 3}),
            "[[ 0  1]\n [ 2  3]\n [ 4  5]\n ...\n [ 8  9]\n [10 11]\n [12 13]]");
  EXPECT_EQ(Text(Range({}, 1), {.threshold = 0}), "0");
  EXPECT_EQ(Text(Range({0}, 0), {.threshold = -1}), "[]");
  // Elements that are left out do not affect the width of the others.
  EXPECT_EQ(Text(TestBuffer::Of<int32_t>({7}, {1, 2, 3, 4444, 5, 6, 7}), {.threshold = 3}), "[1 2 3 ... 5 6 7]");
}

TEST(NumpyTextTest, TheRestIsLeftToNumPy) {
  EXPECT_EQ(Text(TestBuffer::Zeros(DType::kInt4, {2000})), "left to NumPy");
  EXPECT_EQ(Text(TestBuffer::Zeros(DType::kBfloat16, {2})), "left to NumPy");
  EXPECT_EQ(Text(TestBuffer::Zeros(DType::kComplex64, {2})), "left to NumPy");
}

using Kind = LayoutPiece::Kind;

// Returns "( leaf leaf ... )", with `inner` after the leaves.
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
