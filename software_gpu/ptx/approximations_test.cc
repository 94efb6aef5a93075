// SPDX-License-Identifier: Apache-2.0
#include "ptx/approximations.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ptx/evaluate.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kInf = 0x7f800000;
constexpr uint64_t kMinusInf = 0xff800000;
constexpr uint64_t kMinusZero = 0x80000000;
constexpr uint64_t kNan = 0x7fffffff;
constexpr uint64_t kTiny = 0x00000001;

TEST(ApproximationsTest, SpecialValuesAreThoseOfTheTables) {
  ExpectAll({
      {"rcp.approx.f32", {kMinusInf}, kMinusZero},
      {"rcp.approx.f32", {kMinusZero}, kMinusInf},
      {"rcp.approx.ftz.f32", {kTiny}, kInf},
      {"rcp.approx.f32", {kNan}, kNan},
      {"rcp.approx.f32", {F(4)}, F(0.25F)},
      {"sqrt.approx.f32", {F(-1)}, kNan},
      {"sqrt.approx.f32", {kMinusZero}, kMinusZero},
      {"sqrt.approx.ftz.f32", {kMinusZero | kTiny}, kMinusZero},
      {"sqrt.approx.f32", {kInf}, kInf},
      {"sqrt.approx.f32", {F(9)}, F(3)},
      {"rsqrt.approx.f32", {kMinusInf}, kNan},
      {"rsqrt.approx.f32", {kMinusZero}, kMinusInf},
      {"rsqrt.approx.ftz.f32", {kTiny}, kInf},
      {"rsqrt.approx.f32", {kInf}, 0},
      {"rsqrt.approx.f32", {F(4)}, F(0.5F)},
      {"sin.approx.f32", {kInf}, kNan},
      {"sin.approx.f32", {kMinusZero}, kMinusZero},
      {"sin.approx.ftz.f32", {kMinusZero | kTiny}, kMinusZero},
      {"sin.approx.f32", {F(1)}, F(0.84147098480789650665F)},
      {"cos.approx.f32", {kMinusInf}, kNan},
      {"cos.approx.f32", {kMinusZero}, F(1)},
      {"cos.approx.ftz.f32", {F(1)}, F(0.54030230586813971740F)},
      {"lg2.approx.f32", {F(-1)}, kNan},
      {"lg2.approx.f32", {kMinusZero}, kMinusInf},
      {"lg2.approx.f32", {kTiny}, F(-149)},
      {"lg2.approx.ftz.f32", {kTiny}, kMinusInf},
      {"lg2.approx.f32", {kInf}, kInf},
      {"lg2.approx.f32", {F(8)}, F(3)},
      {"ex2.approx.f32", {kMinusInf}, 0},
      {"ex2.approx.f32", {kMinusZero}, F(1)},
      {"ex2.approx.ftz.f32", {kTiny}, F(1)},
      {"ex2.approx.f32", {kInf}, kInf},
      {"ex2.approx.f32", {F(-140)}, 0x200},
      {"ex2.approx.ftz.f32", {F(-140)}, 0},
      {"ex2.approx.ftz.f32", {F(3)}, F(8)},
      {"tanh.approx.f32", {kMinusInf}, F(-1)},
      {"tanh.approx.f32", {kMinusZero}, kMinusZero},
      {"tanh.approx.f32", {kNan}, kNan},
      {"tanh.approx.f32", {F(0.5F)}, F(0.46211715726000975850F)},
  });
}

TEST(ApproximationsTest, QuotientsByLargeDivisorsAreZero) {
  ExpectAll({
      {"div.approx.f32", {F(1), F(3)}, 0x3eaaaaab},
      {"div.approx.f32", {F(1), F(0x1.8p126F)}, 0},
      {"div.approx.f32", {F(-1), F(0x1.8p126F)}, kMinusZero},
      {"div.approx.f32", {F(1), F(0x1p126F)}, F(0x1p-126F)},
      {"div.approx.f32", {kInf, F(0x1p127F)}, kNan},
      {"div.approx.f32", {kNan, F(0x1p127F)}, kNan},
      {"div.approx.ftz.f32", {F(1), kTiny}, kInf},
      {"div.approx.f32", {F(1), kInf}, 0},
      {"div.full.f32", {F(1), F(0x1p127F)}, 0x00400000},
      {"div.full.ftz.f32", {F(1), F(0x1p127F)}, 0},
      {"div.full.f32", {F(6), F(3)}, F(2)},
      {"div.full.f32", {F(0), F(0)}, kNan},
  });
}

TEST(ApproximationsTest, ReciprocalsOfDoublesKnowTheUpperWordAlone) {
  ExpectAll({
      {"rcp.approx.ftz.f64", {D(4)}, D(0.25)},
      {"rcp.approx.ftz.f64", {D(3)}, 0x3fd5555500000000},
      {"rcp.approx.ftz.f64", {D(1) | 0xffffffff}, D(1)},
      {"rcp.approx.ftz.f64", {D(-INFINITY)}, D(-0.0)},
      {"rcp.approx.ftz.f64", {0x800fffffffffffff}, D(-INFINITY)},
      {"rcp.approx.ftz.f64", {0}, D(INFINITY)},
      {"rcp.approx.ftz.f64", {D(0x1.8p1023)}, 0},
      {"rcp.approx.ftz.f64", {0xfff8000000000001}, 0x7fffffff00000000},
      {"rsqrt.approx.ftz.f64", {D(4)}, D(0.5)},
      {"rsqrt.approx.ftz.f64", {D(-1)}, 0x7fffffff00000000},
      {"rsqrt.approx.ftz.f64", {D(-0.0)}, D(-INFINITY)},
      {"rsqrt.approx.ftz.f64", {D(INFINITY)}, 0},
      {"rsqrt.approx.f64", {D(4)}, D(0.5)},
      {"rsqrt.approx.f64", {D(0x1p-1074)}, D(0x1p537)},
  });
}

TEST(ApproximationsTest, HalvesAreApproximatedToo) {
  ExpectAll({
      {"ex2.approx.f16", {0x4000}, 0x4400},
      {"ex2.approx.f16", {0xcc00}, 0x0100},
      {"ex2.approx.f16x2", {0x4000bc00}, 0x44003800},
      {"ex2.approx.ftz.bf16", {0x4000}, 0x4080},
      {"ex2.approx.ftz.bf16x2", {0x40000001}, 0x40803f80},
      {"tanh.approx.f16", {0x7c00}, 0x3c00},
      {"tanh.approx.f16", {0x8000}, 0x8000},
      {"tanh.approx.f16x2", {0xfc003800}, 0xbc003765},
      {"tanh.approx.bf16", {0x7f80}, 0x3f80},
      {"tanh.approx.bf16x2", {0xff807fc0}, 0xbf807fff},
  });
}

}  // namespace
}  // namespace callout::software_gpu::ptx
