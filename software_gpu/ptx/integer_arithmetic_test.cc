// SPDX-License-Identifier: Apache-2.0
#include "ptx/integer_arithmetic.h"

#include <gtest/gtest.h>

#include "ptx/evaluate.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kMin32 = 0x80000000;
constexpr uint64_t kMin64 = 0x8000000000000000;

TEST(IntegerArithmeticTest, SumsAndDifferencesWrap) {
  ExpectAll({
      {"add.u16", {0xffff, 2}, 1},
      {"add.s16", {0x7fff, 1}, 0x8000},
      {"add.u32", {0xffffffff, 1}, 0},
      {"add.s32", {0x7fffffff, 1}, kMin32},
      {"add.u64", {kOnes, 2}, 1},
      {"add.s64", {kMin64, kMin64}, 0},
      {"sub.u16", {0, 1}, 0xffff},
      {"sub.s16", {0x8000, 1}, 0x7fff},
      {"sub.u32", {1, 2}, 0xffffffff},
      {"sub.s32", {kMin32, 1}, 0x7fffffff},
      {"sub.u64", {0, 1}, kOnes},
      {"sub.s64", {kMin64, 1}, 0x7fffffffffffffff},
      {"add.u16x2", {0x0001ffff, 0xffff0001}, 0},
      {"add.s16x2", {0x7fff8000, 0x0001ffff}, 0x80007fff},
      {"sub.u16x2", {0x00010000, 0x00010001}, 0x0000ffff},
      {"sub.s16x2", {0x80000005, 0x00010007}, 0x7ffffffe},
  });
}

TEST(IntegerArithmeticTest, SaturationKeepsTheSmallestAndTheLargest) {
  ExpectAll({
      {"add.sat.s32", {0x7fffffff, 1}, 0x7fffffff},
      {"add.sat.s32", {kMin32, 0xffffffff}, kMin32},
      {"add.sat.s32", {5, 0xfffffffe}, 3},
      {"sub.sat.s32", {kMin32, 1}, kMin32},
      {"sub.sat.s32", {0x7fffffff, 0xffffffff}, 0x7fffffff},
      {"sub.sat.s32", {0, kMin32}, 0x7fffffff},
      {"mad.hi.sat.s32", {0x7fffffff, 0x7fffffff, 0x7fffffff}, 0x7fffffff},
      {"mad.hi.sat.s32", {kMin32, 0x7fffffff, kMin32}, kMin32},
      {"mad24.hi.sat.s32", {0x7fffff, 0x7fffff, 0x7fffffff}, 0x7fffffff},
  });
}

TEST(IntegerArithmeticTest, ProductsHaveALowAHighAndAWidePart) {
  ExpectAll({
      {"mul.lo.u16", {0x1234, 0x100}, 0x3400},
      {"mul.hi.u16", {0xffff, 0xffff}, 0xfffe},
      {"mul.hi.s16", {0xffff, 0xffff}, 0},
      {"mul.lo.s16", {0xffff, 5}, 0xfffb},
      {"mul.wide.u16", {0xffff, 0xffff}, 0xfffe0001},
      {"mul.wide.s16", {0x8000, 0x7fff}, 0xc0008000},
      {"mul.lo.u32", {0x10001, 0x10001}, 0x20001},
      {"mul.lo.s32", {0xffffffff, 7}, 0xfffffff9},
      {"mul.hi.u32", {0xffffffff, 0xffffffff}, 0xfffffffe},
      {"mul.hi.s32", {kMin32, kMin32}, 0x40000000},
      {"mul.hi.s32", {0xffffffff, 1}, 0xffffffff},
      {"mul.wide.u32", {0xffffffff, 0xffffffff}, 0xfffffffe00000001},
      {"mul.wide.s32", {0xffffffff, 2}, 0xfffffffffffffffe},
      {"mul.wide.s32", {kMin32, kMin32}, 0x4000000000000000},
      {"mul.lo.u64", {kOnes, kOnes}, 1},
      {"mul.lo.s64", {kOnes, 3}, 0xfffffffffffffffd},
      {"mul.hi.u64", {kOnes, kOnes}, 0xfffffffffffffffe},
      {"mul.hi.s64", {kMin64, kMin64}, 0x4000000000000000},
      {"mul.hi.s64", {kOnes, 1}, kOnes},
      {"mad.lo.u16", {0x100, 0x100, 7}, 7},
      {"mad.lo.s16", {0xffff, 2, 1}, 0xffff},
      {"mad.hi.u16", {0xffff, 0xffff, 3}, 1},
      {"mad.hi.s16", {0x8000, 2, 0}, 0xffff},
      {"mad.wide.u16", {0xffff, 0xffff, 0x20000}, 0x1},
      {"mad.wide.s16", {0xffff, 1, 0}, 0xffffffff},
      {"mad.lo.u32", {3, 5, 0xfffffff2}, 1},
      {"mad.lo.s32", {0xffffffff, 3, 1}, 0xfffffffe},
      {"mad.hi.u32", {0xffffffff, 0xffffffff, 2}, 0},
      {"mad.hi.s32", {kMin32, 2, 1}, 0},
      {"mad.wide.u32", {0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff00000000},
      {"mad.wide.s32", {0xffffffff, 5, 10}, 5},
      {"mad.lo.u64", {kOnes, 2, 5}, 3},
      {"mad.lo.s64", {kOnes, kOnes, kOnes}, 0},
      {"mad.hi.u64", {kOnes, 2, 1}, 2},
      {"mad.hi.s64", {kMin64, 2, 0}, kOnes},
  });
}

TEST(IntegerArithmeticTest, TwentyFourBitsAreMultiplied) {
  ExpectAll({
      {"mul24.lo.u32", {0xff000003, 0x5}, 15},
      {"mul24.hi.u32", {0xffffff, 0xffffff}, 0xfffffe00},
      {"mul24.lo.s32", {0xffffff, 2}, 0xfffffffe},
      {"mul24.hi.s32", {0x800000, 0x800000}, 0x40000000},
      {"mul24.hi.s32", {0xffffff, 1}, 0xffffffff},
      {"mad24.lo.u32", {0xffffff, 1, 1}, 0x1000000},
      {"mad24.lo.s32", {0xffffff, 1, 1}, 0},
      {"mad24.hi.u32", {0x10000, 0x10000, 1}, 0x10001},
      {"mad24.hi.s32", {0xff0000, 0x10000, 0}, 0xffff0000},
  });
}

TEST(IntegerArithmeticTest, QuotientsAreCutTowardZero) {
  ExpectAll({
      {"div.u16", {0xffff, 2}, 0x7fff},
      {"div.s16", {0xffff, 2}, 0},
      {"div.u32", {0xffffffff, 16}, 0x0fffffff},
      {"div.s32", {0xfffffff9, 2}, 0xfffffffd},
      {"div.u64", {kOnes, 3}, 0x5555555555555555},
      {"div.s64", {kOnes - 6, 2}, kOnes - 2},
      {"rem.u16", {0xffff, 16}, 15},
      {"rem.s16", {0xfff9, 2}, 0xffff},
      {"rem.u32", {0xffffffff, 10}, 5},
      {"rem.s32", {0xfffffff9, 4}, 0xfffffffd},
      {"rem.s32", {7, 0xfffffffc}, 3},
      {"rem.u64", {kOnes, 10}, 5},
      {"rem.s64", {kOnes - 6, 4}, kOnes - 2},
  });
}

TEST(IntegerArithmeticTest, TheSmallestNumberByMinusOneWraps) {
  ExpectAll({
      {"div.s16", {0x8000, 0xffff}, 0x8000},
      {"div.s32", {kMin32, 0xffffffff}, kMin32},
      {"div.s64", {kMin64, kOnes}, kMin64},
      {"rem.s16", {0x8000, 0xffff}, 0},
      {"rem.s32", {kMin32, 0xffffffff}, 0},
      {"rem.s64", {kMin64, kOnes}, 0},
  });
}

TEST(IntegerArithmeticTest, DivisionByZeroIsOnesAndItsRemainderTheDividend) {
  for (const char* type : {"u16", "s16", "u32", "s32", "u64", "s64"}) {
    const int bits = std::string(type).substr(1) == "16" ? 16 : std::string(type).substr(1) == "32" ? 32 : 64;
    EXPECT_EQ(Evaluate(std::string("div.") + type, {42, 0}), ZeroExtend(kOnes, bits)) << type;
    EXPECT_EQ(Evaluate(std::string("rem.") + type, {42, 0}), 42U) << type;
  }
}

TEST(IntegerArithmeticTest, SignsMinimaAndMaximaFollowTheType) {
  ExpectAll({
      {"abs.s16", {0x8000}, 0x8000},
      {"abs.s16", {0xffff}, 1},
      {"abs.s32", {kMin32}, kMin32},
      {"abs.s32", {0xfffffffb}, 5},
      {"abs.s64", {kMin64}, kMin64},
      {"abs.s64", {kOnes}, 1},
      {"neg.s16", {1}, 0xffff},
      {"neg.s32", {kMin32}, kMin32},
      {"neg.s32", {0}, 0},
      {"neg.s64", {1}, kOnes},
      {"min.u16", {0xffff, 1}, 1},
      {"min.s16", {0xffff, 1}, 0xffff},
      {"min.u32", {0xffffffff, 1}, 1},
      {"min.s32", {0xffffffff, 1}, 0xffffffff},
      {"min.u64", {kOnes, 1}, 1},
      {"min.s64", {kOnes, 1}, kOnes},
      {"max.u16", {0xffff, 1}, 0xffff},
      {"max.s16", {0xffff, 1}, 1},
      {"max.u32", {0xffffffff, 1}, 0xffffffff},
      {"max.s32", {0xffffffff, 1}, 1},
      {"max.u64", {kOnes, 1}, kOnes},
      {"max.s64", {kOnes, 1}, 1},
      {"min.u16x2", {0xffff0001, 0x00010002}, 0x00010001},
      {"max.u16x2", {0xffff0001, 0x00010002}, 0xffff0002},
      {"min.s16x2", {0xffff0001, 0x00010002}, 0xffff0001},
      {"max.s16x2", {0xffff0001, 0x00010002}, 0x00010002},
      {"min.relu.s32", {0xffffffff, 1}, 0},
      {"max.relu.s32", {0xffffffff, 0xfffffffe}, 0},
      {"max.relu.s32", {0xffffffff, 3}, 3},
      {"min.relu.s16x2", {0xffff0004, 0x00010003}, 0x00000003},
      {"max.relu.s16x2", {0xffff0004, 0xfffe0003}, 0x00000004},
  });
}

TEST(IntegerArithmeticTest, DifferencesAndDotProductsAreSummed) {
  ExpectAll({
      {"sad.u16", {1, 3, 10}, 12},
      {"sad.s16", {0xffff, 1, 0xffff}, 1},
      {"sad.u32", {3, 0xffffffff, 1}, 0xfffffffd},
      {"sad.s32", {3, 0xffffffff, 1}, 5},
      {"sad.u64", {1, 4, 2}, 5},
      {"sad.s64", {kOnes, 4, 2}, 7},
      {"dp4a.u32.u32", {0x01020304, 0xff000002, 1}, 0x108},
      {"dp4a.s32.s32", {0xff020304, 0xff000002, 1}, 10},
      {"dp4a.u32.s32", {0xff000000, 0xff000000, 0}, 0xffffff01},
      {"dp4a.s32.u32", {0xff000000, 0xff000000, 0}, 0xffffff01},
      {"dp2a.lo.u32.u32", {0xffff0002, 0x05060102, 1}, 0x10004},
      {"dp2a.hi.u32.u32", {0x00010002, 0x05060102, 1}, 18},
      {"dp2a.lo.s32.s32", {0xffff0002, 0x0506ff02, 0}, 5},
      {"dp2a.hi.s32.u32", {0xffff0000, 0xff060102, 0}, 0xffffff01},
      {"dp2a.lo.u32.s32", {0xffff0000, 0x0000ff00, 0}, 0xffff0001},
  });
}

TEST(IntegerArithmeticTest, TheCarryGoesFromInstructionToInstruction) {
  EXPECT_EQ(Evaluate("add.cc.u32", {0xffffffff, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("add.cc.u32", {0xffffffff, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("add.cc.s32", {0x7fffffff, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("add.cc.u64", {kOnes, kOnes}), 1U);
  EXPECT_EQ(Evaluate("addc.u32", {5, 6, 1}), 12U);
  EXPECT_EQ(Evaluate("addc.s64", {kOnes, 0, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("addc.cc.s64", {kOnes, 0, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("addc.cc.u32", {0xffffffff, 0xffffffff, 1}), 1U);
  EXPECT_EQ(Evaluate("sub.cc.u32", {0, 1}), 0xffffffffU);
  EXPECT_EQ(EvaluateSecond("sub.cc.u32", {0, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("sub.cc.s64", {1, 1}), 0U);
  EXPECT_EQ(Evaluate("subc.u32", {5, 5, 1}), 0xffffffffU);
  EXPECT_EQ(EvaluateSecond("subc.cc.u32", {5, 5, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("subc.cc.u64", {0, kOnes, 1}), 1U);
  EXPECT_EQ(Evaluate("mad.lo.cc.u32", {0x10000, 0x10000, 5}), 5U);
  EXPECT_EQ(EvaluateSecond("mad.lo.cc.u32", {0xffff, 0x10001, 1}), 1U);
  EXPECT_EQ(Evaluate("mad.hi.cc.u64", {kOnes, kOnes, 2}), 0U);
  EXPECT_EQ(EvaluateSecond("mad.hi.cc.u64", {kOnes, kOnes, 2}), 1U);
  EXPECT_EQ(Evaluate("madc.lo.u32", {2, 3, 4, 1}), 11U);
  EXPECT_EQ(Evaluate("madc.hi.u32", {0xffffffff, 0xffffffff, 1, 1}), 0U);
  EXPECT_EQ(Evaluate("madc.lo.cc.u32", {0xffffffff, 1, 0, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("madc.lo.cc.u32", {0xffffffff, 1, 0, 1}), 1U);
  EXPECT_EQ(Evaluate("madc.hi.s32", {kMin32, 2, 0, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("madc.hi.cc.s32", {kMin32, 2, 0, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("madc.lo.cc.u64", {1, kOnes, 0, 1}), 1U);
}

TEST(IntegerArithmeticTest, BitsAboveTheTypeAreIgnored) {
  const uint64_t high = 0xdead000000000000;
  ExpectAll({
      {"add.u16", {high | 0x10001, high | 0x20002}, 3},
      {"add.sat.s32", {high | 1, high | 2}, 3},
      {"mul.hi.u32", {high | 1, high | 1}, 0},
      {"mul.wide.s32", {high | 1, high | 1}, 1},
      {"mul.wide.s16", {high | 0x70001, high | 1}, 1},
      {"div.u32", {high | 8, high | 2}, 4},
      {"rem.s32", {high | 9, high | 2}, 1},
      {"min.u32", {high | 2, 5}, 2},
      {"abs.s32", {high | 2}, 2},
      {"sad.u32", {high | 2, 5, high | 1}, 4},
      {"dp4a.u32.u32", {high | 2, high | 3, high | 1}, 7},
  });
  EXPECT_EQ(EvaluateSecond("add.cc.u32", {high | 1, high | 2}), 0U);
  EXPECT_EQ(EvaluateSecond("sub.cc.u32", {high | 2, 0xffff00000001}), 0U);
}

}  // namespace
}  // namespace callout::software_gpu::ptx
