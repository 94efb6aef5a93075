// SPDX-License-Identifier: Apache-2.0
#include "ptx/comparisons.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ptx/evaluate.h"

namespace callout::software_gpu::ptx {
namespace {

/// The results of a comparison for less, equal, greater, and with a NaN.
struct Truths {
  const char* compare;
  bool less, equal, greater, unordered;
};

constexpr Truths kSignedCompares[] = {
    {"eq", false, true, false, false}, {"ne", true, false, true, false},  {"lt", true, false, false, false},
    {"le", true, true, false, false},  {"gt", false, false, true, false}, {"ge", false, true, true, false},
};
constexpr Truths kUnsignedCompares[] = {
    {"lo", true, false, false, false},
    {"ls", true, true, false, false},
    {"hi", false, false, true, false},
    {"hs", false, true, true, false},
};
constexpr Truths kFloatCompares[] = {
    {"equ", false, true, false, true}, {"neu", true, false, true, true},   {"ltu", true, false, false, true},
    {"leu", true, true, false, true},  {"gtu", false, false, true, true},  {"geu", false, true, true, true},
    {"num", true, true, true, false},  {"nan", false, false, false, true},
};

void ExpectTruths(const Truths& truths, const std::string& type, uint64_t small, uint64_t large) {
  const std::string spelling = std::string("setp.") + truths.compare + "." + type;
  EXPECT_EQ(Evaluate(spelling, {small, large}), truths.less ? 1U : 0U) << spelling;
  EXPECT_EQ(Evaluate(spelling, {large, small}), truths.greater ? 1U : 0U) << spelling;
  EXPECT_EQ(Evaluate(spelling, {small, small}), truths.equal ? 1U : 0U) << spelling;
  EXPECT_EQ(EvaluateSecond(spelling, {small, large}), truths.less ? 0U : 1U) << spelling;
}

TEST(ComparisonsTest, IntegersAreOrderedByTheirType) {
  for (const Truths& truths : kSignedCompares) {
    ExpectTruths(truths, "s16", 0xffff, 1);
    ExpectTruths(truths, "s32", 0x80000000, 0x7fffffff);
    ExpectTruths(truths, "s64", kOnes, 0);
    ExpectTruths(truths, "u16", 1, 0xffff);
    ExpectTruths(truths, "u32", 0x7fffffff, 0x80000000);
    ExpectTruths(truths, "u64", 0, kOnes);
  }
  for (const Truths& truths : kUnsignedCompares) {
    ExpectTruths(truths, "u16", 1, 0xffff);
    ExpectTruths(truths, "u32", 0x7fffffff, 0x80000000);
    ExpectTruths(truths, "u64", 0, kOnes);
  }
  ExpectAll({
      {"setp.eq.b16", {0x10001, 1}, 1},
      {"setp.ne.b32", {1, 2}, 1},
      {"setp.eq.b64", {0x100000001, 1}, 0},
      {"setp.lt.s32", {0xff00000001, 2}, 1},
  });
}

TEST(ComparisonsTest, FloatsAreOrderedOrUnordered) {
  struct Values {
    const char* type;
    uint64_t small, large, nan;
  };
  const Values all[] = {{"f32", F(-1), F(2), F(NAN)},
                        {"f64", D(-1), D(2), D(NAN)},
                        {"f16", 0xbc00, 0x4000, 0x7e00},
                        {"bf16", 0xbf80, 0x4000, 0x7fc0}};
  const auto expect = [](const Truths& truths, const Values& values) {
    ExpectTruths(truths, values.type, values.small, values.large);
    const std::string spelling = std::string("setp.") + truths.compare + "." + values.type;
    EXPECT_EQ(Evaluate(spelling, {values.nan, values.large}), truths.unordered ? 1U : 0U) << spelling;
    EXPECT_EQ(Evaluate(spelling, {values.small, values.nan}), truths.unordered ? 1U : 0U) << spelling;
    EXPECT_EQ(EvaluateSecond(spelling, {values.nan, values.nan}), truths.unordered ? 0U : 1U) << spelling;
  };
  for (const Values& values : all) {
    for (const Truths& truths : kSignedCompares) expect(truths, values);
    for (const Truths& truths : kFloatCompares) expect(truths, values);
  }
  ExpectAll({
      {"setp.eq.f32", {F(0), F(-0.0F)}, 1},
      {"setp.lt.f32", {F(-0.0F), F(0)}, 0},
      {"setp.eq.f32", {1, 0}, 0},
      {"setp.eq.ftz.f32", {1, 0}, 1},
      {"setp.lt.ftz.f16", {0x8001, 0}, 0},
      {"setp.lt.f16", {0x8001, 0}, 1},
  });
}

TEST(ComparisonsTest, PredicatesAreCombined) {
  ExpectAll({
      {"setp.lt.and.s32", {1, 2, 1}, 1},
      {"setp.lt.and.s32", {1, 2, 0}, 0},
      {"setp.lt.or.s32", {3, 2, 1}, 1},
      {"setp.lt.or.s32", {3, 2, 0}, 0},
      {"setp.lt.xor.s32", {1, 2, 1}, 0},
      {"setp.lt.xor.u64", {3, 2, 1}, 1},
      {"setp.gtu.or.f32", {F(NAN), F(1), 0}, 1},
      {"setp.eq.and.b32", {1, 1, 2}, 0},
  });
  EXPECT_EQ(EvaluateSecond("setp.lt.and.s32", {1, 2, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("setp.lt.and.s32", {3, 2, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("setp.lt.or.s32", {1, 2, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("setp.lt.xor.f64", {D(1), D(2), 1}), 1U);
}

TEST(ComparisonsTest, EveryComparisonIsCombinedAlike) {
  const std::vector<std::string> compares = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                             "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  int combined = 0;
  for (const std::string type :
       {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "bf16", "f32", "f64"}) {
    for (const std::string& compare : compares) {
      if (!FindOperation("setp." + compare + "." + type).value) continue;
      for (const uint64_t with : {0, 1}) {
        for (const auto& [a, b] : {std::pair{uint64_t{1}, uint64_t{2}}, {uint64_t{2}, uint64_t{1}}, {kOnes, kOnes}}) {
          const uint64_t alone = Evaluate("setp." + compare + "." + type, {a, b});
          const auto spelling = [&](const char* boolean) { return "setp." + compare + "." + boolean + "." + type; };
          EXPECT_EQ(Evaluate(spelling("and"), {a, b, with}), alone & with);
          EXPECT_EQ(Evaluate(spelling("or"), {a, b, with}), alone | with);
          EXPECT_EQ(Evaluate(spelling("xor"), {a, b, with}), alone ^ with);
          EXPECT_EQ(EvaluateSecond(spelling("and"), {a, b, with}), (1 - alone) & with);
          EXPECT_EQ(EvaluateSecond(spelling("or"), {a, b, with}), (1 - alone) | with);
          ++combined;
        }
      }
    }
  }
  EXPECT_EQ(combined, 6 * (3 * 2 + 3 * 10 + 3 * 6 + 4 * 14));
}

TEST(ComparisonsTest, PackedValuesHaveAPredicateEach) {
  EXPECT_EQ(Evaluate("setp.lt.f16x2", {0x3c004000, 0x40003c00}), 0U);
  EXPECT_EQ(EvaluateSecond("setp.lt.f16x2", {0x3c004000, 0x40003c00}), 1U);
  EXPECT_EQ(Evaluate("setp.gt.and.bf16x2", {0x3f804000, 0x40003f80, 1}), 1U);
  EXPECT_EQ(EvaluateSecond("setp.gt.and.bf16x2", {0x3f804000, 0x40003f80, 1}), 0U);
  EXPECT_EQ(EvaluateSecond("setp.gt.or.bf16x2", {0x3f804000, 0x40003f80, 1}), 1U);
}

TEST(ComparisonsTest, SetMakesOnesOrTheFloatOne) {
  ExpectAll({
      {"set.lt.u32.s32", {0xffffffff, 0}, 0xffffffff},
      {"set.lt.u32.u32", {0xffffffff, 0}, 0},
      {"set.eq.s32.f64", {D(1), D(1)}, 0xffffffff},
      {"set.gt.f32.s32", {1, 0}, F(1)},
      {"set.nan.f32.f32", {F(NAN), 0}, F(1)},
      {"set.eq.ftz.u32.f32", {1, 0}, 0xffffffff},
      {"set.lt.and.f32.s32", {0, 1, 0}, 0},
      {"set.lt.or.u32.s64", {1, 0, 1}, 0xffffffff},
      {"set.lt.u16.f16", {0x3c00, 0x4000}, 0xffff},
      {"set.lt.f16.f16", {0x3c00, 0x4000}, 0x3c00},
      {"set.ge.bf16.bf16", {0x3f80, 0x3f80}, 0x3f80},
      {"set.lt.u32.bf16", {0x3f80, 0x3f80}, 0},
      {"set.lt.f16x2.f16x2", {0x3c004000, 0x40003c00}, 0x3c000000},
      {"set.gt.bf16x2.bf16x2", {0x3f804000, 0x40003f80}, 0x00003f80},
      {"set.lt.u32.f16x2", {0x3c004000, 0x40003c00}, 0xffff0000},
  });
}

TEST(ComparisonsTest, OneOfTwoIsSelected) {
  ExpectAll({
      {"selp.b16", {0x11111, 2, 1}, 0x1111},
      {"selp.u16", {1, 2, 0}, 2},
      {"selp.s16", {1, 0xffff, 0}, 0xffff},
      {"selp.b32", {1, 2, 1}, 1},
      {"selp.u32", {1, 2, 2}, 2},
      {"selp.s32", {1, 2, 0}, 2},
      {"selp.f32", {F(1), F(2), 1}, F(1)},
      {"selp.b64", {kOnes, 2, 1}, kOnes},
      {"selp.u64", {1, 2, 0}, 2},
      {"selp.s64", {1, 2, 0}, 2},
      {"selp.f64", {D(1), D(2), 0}, D(2)},
      {"slct.u32.s32", {1, 2, 0}, 1},
      {"slct.u32.s32", {1, 2, 0x80000000}, 2},
      {"slct.f32.s32", {F(1), F(2), 5}, F(1)},
      {"slct.b64.f32", {1, 2, F(-0.0F)}, 1},
      {"slct.u64.f32", {1, 2, F(NAN)}, 2},
      {"slct.s32.f32", {1, 2, 0x80000001}, 2},
      {"slct.ftz.s32.f32", {1, 2, 0x80000001}, 1},
  });
}

TEST(ComparisonsTest, KindsOfFloatsAreTold) {
  struct Kinds {
    uint64_t single, twofold;
    bool finite, infinite, number, normal, subnormal;
  };
  const Kinds all[] = {
      {F(-1), D(-1), true, false, true, true, false},
      {F(-0.0F), D(-0.0), true, false, true, false, false},
      {0x80000001, 0x8000000000000001, true, false, true, false, true},
      {0x7f7fffff, 0x7fefffffffffffff, true, false, true, true, false},
      {0xff800000, 0xfff0000000000000, false, true, true, false, false},
      {0x7f800001, 0x7ff0000000000001, false, false, false, false, false},
  };
  for (const Kinds& kinds : all) {
    for (const auto& [type, bits] : {std::pair{"f32", kinds.single}, std::pair{"f64", kinds.twofold}}) {
      const auto test = [&type = type, &bits = bits](const std::string& what) {
        return Evaluate("testp." + what + "." + type, {bits}) != 0;
      };
      EXPECT_EQ(test("finite"), kinds.finite) << std::hex << bits;
      EXPECT_EQ(test("infinite"), kinds.infinite) << std::hex << bits;
      EXPECT_EQ(test("number"), kinds.number) << std::hex << bits;
      EXPECT_EQ(test("notanumber"), !kinds.number) << std::hex << bits;
      EXPECT_EQ(test("normal"), kinds.normal) << std::hex << bits;
      EXPECT_EQ(test("subnormal"), kinds.subnormal) << std::hex << bits;
    }
  }
}

}  // namespace
}  // namespace callout::software_gpu::ptx
