// SPDX-License-Identifier: Apache-2.0
#include "ptx/operation.h"

#include <gtest/gtest.h>

#include "ptx/evaluate.h"

namespace callout::software_gpu::ptx {
namespace {

TEST(OperationTest, WhatAnOperationTakesAndMakesIsTold) {
  const Operation wide = FindOperation("mad.wide.s32");
  EXPECT_EQ(wide.opcode, Opcode::kMad);
  EXPECT_EQ(wide.to, Type::kS64);
  EXPECT_EQ(wide.from, Type::kS32);
  EXPECT_EQ(wide.inputs, 3);
  EXPECT_FALSE(wide.second);
  EXPECT_EQ(FindOperation("mul.wide.u16").to, Type::kU32);
  EXPECT_EQ(FindOperation("popc.b64").to, Type::kU32);
  EXPECT_EQ(FindOperation("cvt.rn.f16.f32").to, Type::kF16);
  EXPECT_EQ(FindOperation("cvt.rn.f16.f32").from, Type::kF32);
  EXPECT_EQ(FindOperation("setp.lt.s32").to, Type::kPred);
  EXPECT_EQ(FindOperation("setp.lt.s32").inputs, 2);
  EXPECT_EQ(FindOperation("setp.lt.and.s32").inputs, 3);
  EXPECT_TRUE(FindOperation("setp.lt.s32").second);
  EXPECT_EQ(FindOperation("lop3.b32").inputs, 4);
  EXPECT_EQ(FindOperation("max.f32", nullptr, 3).inputs, 3);
  EXPECT_EQ(FindOperation("max.f32").inputs, 2);
  EXPECT_FALSE(FindOperation("addc.u32").second);
  EXPECT_TRUE(FindOperation("addc.u32").carry_in);
  EXPECT_EQ(FindOperation("madc.hi.cc.u32").inputs, 3);
}

TEST(OperationTest, InputsMayHaveTypesOfTheirOwn) {
  const auto types = [](const char* spelling) {
    const Operation operation = FindOperation(spelling);
    std::vector<Type> all;
    for (int i = 0; i < operation.inputs; ++i) all.push_back(TypeOfInput(operation, i));
    return all;
  };
  EXPECT_EQ(types("mad.wide.s32"), (std::vector{Type::kS32, Type::kS32, Type::kS64}));
  EXPECT_EQ(types("mad.lo.u16"), (std::vector{Type::kU16, Type::kU16, Type::kU16}));
  EXPECT_EQ(types("shl.b64"), (std::vector{Type::kB64, Type::kU32}));
  EXPECT_EQ(types("shr.s16"), (std::vector{Type::kS16, Type::kU32}));
  EXPECT_EQ(types("bfe.s64"), (std::vector{Type::kS64, Type::kU32, Type::kU32}));
  EXPECT_EQ(types("bfi.b64"), (std::vector{Type::kB64, Type::kB64, Type::kU32, Type::kU32}));
  EXPECT_EQ(types("slct.u64.f32"), (std::vector{Type::kU64, Type::kU64, Type::kF32}));
  EXPECT_EQ(types("selp.f32"), (std::vector{Type::kF32, Type::kF32, Type::kPred}));
  EXPECT_EQ(types("setp.lt.and.f64"), (std::vector{Type::kF64, Type::kF64, Type::kPred}));
  EXPECT_EQ(types("set.lt.u32.f64"), (std::vector{Type::kF64, Type::kF64}));
  EXPECT_EQ(types("dp4a.s32.u32"), (std::vector{Type::kB32, Type::kB32, Type::kB32}));
}

TEST(OperationTest, WordsMayStandInAnyOrder) {
  EXPECT_EQ(Evaluate("mul.f32.rz", {F(3e38F), F(2)}), 0x7f7fffffU);
  EXPECT_EQ(Evaluate("fma.ftz.rn.f32", {F(2), F(3), F(4)}), F(10));
}

class RefusedTest : public testing::TestWithParam<const char*> {};

TEST_P(RefusedTest, WhatIsNotLegalIsNotFound) {
  std::string why;
  const Operation operation = FindOperation(GetParam(), &why);
  EXPECT_EQ(operation.opcode, Opcode::kNone);
  EXPECT_FALSE(operation.value);
  EXPECT_FALSE(why.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, RefusedTest,
    testing::Values("", ".", "add", "add.", "frobnicate.u32", "add.u32.", "add.pred", "add.u8", "add.b32",
                    "add.sat.u32", "add.rn.u32", "add.cc.u16", "add.u32.u32", "add.rni.f32", "add.rna.f32",
                    "add.rz.f16", "add.ftz.f64", "add.sat.f64", "add.ftz.bf16", "add.relu.f16", "add.approx.f32",
                    "mul.u32", "mul.wide.u64", "mul.lo.f32", "mul.lo.hi.u32", "mad.wide.cc.u32", "mad.hi.sat.u32",
                    "fma.f32", "fma.lo.u32", "fma.rn.relu.f32", "fma.rn.sat.relu.f16", "div.f32", "div.approx.f64",
                    "div.rn.approx.f32", "rcp.f32", "rcp.approx.f64", "sqrt.approx.f64", "rsqrt.rn.f32", "sin.f32",
                    "sin.approx.f64", "tanh.approx.ftz.f32", "ex2.approx.bf16", "ex2.approx.ftz.f16", "and.u32",
                    "not.f32", "shl.u32", "shr.f32", "shf.l.b32", "shf.wrap.b32", "shf.l.wrap.b64", "lop3.b64",
                    "lop3.or.b32", "prmt.b64", "bfe.b32", "bfi.u32", "bfind.b32", "bmsk.b32", "clz.u32", "popc.s32",
                    "brev.u32", "szext.s32", "neg.u32", "abs.u32", "min.b32", "max.xorsign.f32", "max.NaN.f64",
                    "max.NaN.s32", "min.relu.u32", "selp.pred", "selp.f16", "setp.s32", "setp.lt.b32", "setp.lo.s32",
                    "setp.equ.s32", "setp.lo.f32", "setp.lt.ftz.f64", "set.lt.u32", "set.lt.u64.u32", "slct.u32.u32",
                    "slct.ftz.u32.s32", "testp.f32", "testp.finite.f16", "copysign.f16", "cvt.u32", "cvt.f32.s32",
                    "cvt.s32.f32", "cvt.rn.s32.f32", "cvt.rzi.f32.s32", "cvt.rn.f64.f32", "cvt.f32.f64",
                    "cvt.rni.f32.f64", "cvt.sat.u32.u8", "cvt.sat.s64.s32", "cvt.ftz.u32.u8", "cvt.rn.sat.bf16.f32",
                    "cvt.tf32.f32", "cvt.rp.tf32.f32", "cvt.rn.e4m3x2.f32", "cvt.rn.f16x2.f64", "cvt.rm.f16x2.f32",
                    "cvt.pack.u16.s32", "cvt.pack.sat.u8.s32", "cvt.pack.sat.u16.s32.b32", "mov.b8", "mov.b128"));

TEST(OperationTest, ARefusalNamesTheWordOrTheOpcode) {
  std::string why;
  FindOperation("add.bogus.u32", &why);
  EXPECT_EQ(why, "'bogus' is unknown, or stands twice");
  FindOperation("ld.global.u32", &why);
  EXPECT_EQ(why, "'ld' is unknown, or stands twice");
  FindOperation("add.sat.sat.s32", &why);
  EXPECT_EQ(why, "'sat' is unknown, or stands twice");
  FindOperation("add.rz.f16", &why);
  EXPECT_EQ(why, "there is no such form of 'add'");
}

}  // namespace
}  // namespace callout::software_gpu::ptx
