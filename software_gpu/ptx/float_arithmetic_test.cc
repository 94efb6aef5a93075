// SPDX-License-Identifier: Apache-2.0
#include "ptx/float_arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "ptx/evaluate.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kNan32 = 0x7fffffff;
constexpr uint64_t kInf32 = 0x7f800000;
constexpr uint64_t kNan16 = 0x7fff;
constexpr uint64_t kSign32 = 0x80000000;

TEST(FloatArithmeticTest, SinglesFollowTheStandard) {
  ExpectAll({
      {"add.f32", {F(1), F(0x1p-24F)}, F(1)},
      {"add.rn.f32", {F(1), F(0x1.8p-24F)}, F(1 + 0x1p-23F)},
      {"add.f32", {F(0), F(-0.0F)}, F(0)},
      {"add.f32", {F(-0.0F), F(-0.0F)}, F(-0.0F)},
      {"add.f32", {kInf32, kInf32 | kSign32}, kNan32},
      {"add.f32", {0xffc12345, F(1)}, kNan32},
      {"add.f32", {0x00000001, 0x00000001}, 0x00000002},
      {"sub.f32", {F(1), F(1)}, F(0)},
      {"sub.rn.f32", {F(1), F(3)}, F(-2)},
      {"mul.f32", {F(0x1p-100F), F(0x1p-49F)}, 0x00000001},
      {"mul.rn.f32", {F(3e38F), F(-2)}, kInf32 | kSign32},
      {"mul.f32", {F(0), kInf32}, kNan32},
      {"fma.rn.f32", {F(1 + 0x1p-23F), F(1 - 0x1p-23F), F(-1)}, F(-0x1p-46F)},
      {"mad.rn.f32", {F(2), F(3), F(4)}, F(10)},
      {"fma.rn.f32", {kInf32, F(0), F(1)}, kNan32},
      {"div.rn.f32", {F(1), F(3)}, 0x3eaaaaab},
      {"div.rn.f32", {F(1), F(-0.0F)}, kInf32 | kSign32},
      {"div.rn.f32", {F(0), F(0)}, kNan32},
      {"rcp.rn.f32", {F(3)}, 0x3eaaaaab},
      {"sqrt.rn.f32", {F(2)}, 0x3fb504f3},
      {"sqrt.rn.f32", {F(-0.0F)}, F(-0.0F)},
      {"sqrt.rn.f32", {F(-1)}, kNan32},
  });
}

TEST(FloatArithmeticTest, SinglesRoundInEachMode) {
  const uint64_t one = F(1);
  const uint64_t tiny = 0x00000001;
  ExpectAll({
      {"add.rz.f32", {one, tiny}, one},
      {"add.rm.f32", {one, tiny}, one},
      {"add.rp.f32", {one, tiny}, one + 1},
      {"add.rz.f32", {one, tiny | kSign32}, one - 1},
      {"add.rm.f32", {one, tiny | kSign32}, one - 1},
      {"add.rp.f32", {one, tiny | kSign32}, one},
      {"add.rm.f32", {one, one | kSign32}, kSign32},
      {"add.rp.f32", {one, one | kSign32}, 0},
      {"sub.rz.f32", {one, tiny}, one - 1},
      {"sub.rp.f32", {one | kSign32, tiny}, one | kSign32},
      {"mul.rz.f32", {F(1 + 0x1p-23F), F(1 + 0x1p-23F)}, F(1 + 0x1p-22F)},
      {"mul.rp.f32", {F(1 + 0x1p-23F), F(1 + 0x1p-23F)}, F(1 + 0x1.8p-22F)},
      {"mul.rz.f32", {F(3e38F), F(2)}, 0x7f7fffff},
      {"mul.rm.f32", {F(3e38F), F(2)}, 0x7f7fffff},
      {"mul.rp.f32", {F(3e38F), F(2)}, kInf32},
      {"mul.rp.f32", {tiny, tiny}, tiny},
      {"fma.rz.f32", {one, one, tiny}, one},
      {"fma.rp.f32", {one, one, tiny}, one + 1},
      {"fma.rm.f32", {one, one, tiny | kSign32}, one - 1},
      {"mad.rp.f32", {one, one, tiny}, one + 1},
      {"div.rz.f32", {one, F(3)}, 0x3eaaaaaa},
      {"div.rm.f32", {one, F(-3)}, 0xbeaaaaab},
      {"div.rp.f32", {one, F(3)}, 0x3eaaaaab},
      {"rcp.rz.f32", {F(3)}, 0x3eaaaaaa},
      {"rcp.rm.f32", {F(3)}, 0x3eaaaaaa},
      {"rcp.rp.f32", {F(3)}, 0x3eaaaaab},
      {"sqrt.rz.f32", {F(2)}, 0x3fb504f3},
      {"sqrt.rm.f32", {F(2)}, 0x3fb504f3},
      {"sqrt.rp.f32", {F(2)}, 0x3fb504f4},
  });
}

TEST(FloatArithmeticTest, SubnormalsAreFlushedWithTheirSign) {
  ExpectAll({
      {"add.ftz.f32", {0x00000001, 0x00000001}, 0},
      {"add.rn.ftz.f32", {0x80000001, 0x80000001}, kSign32},
      {"mul.ftz.f32", {F(0x1p-100F), F(-0x1p-40F)}, kSign32},
      {"mul.rp.ftz.f32", {F(0x1p-100F), F(0x1p-40F)}, 0},
      {"fma.rn.ftz.f32", {F(0x1p-100F), F(0x1p-40F), 0}, 0},
      {"sub.ftz.f32", {F(0x1.8p-126F), F(0x1p-126F)}, 0},
      {"div.rn.ftz.f32", {F(1), 0x00000001}, kInf32},
      {"rcp.rn.ftz.f32", {F(0x1p127F)}, 0},
      {"rcp.rn.f32", {F(0x1p127F)}, 0x00400000},
      {"sqrt.rn.ftz.f32", {0x80000001}, kSign32},
      {"neg.ftz.f32", {0x00000001}, kSign32},
      {"neg.f32", {0x00000001}, 0x80000001},
      {"abs.ftz.f32", {0x80000001}, 0},
      {"abs.f32", {0x80000001}, 1},
      {"add.ftz.f16", {0x0001, 0x0001}, 0},
      {"add.f16", {0x0001, 0x0001}, 2},
      {"fma.rn.ftz.f16", {0x0400, 0x3800, 0}, 0},
      {"fma.rn.f16", {0x0400, 0x3800, 0}, 0x200},
      {"mul.ftz.f16x2", {0x04008400, 0x38003800}, 0x00008000},
  });
}

TEST(FloatArithmeticTest, SaturationIsToZeroAndOne) {
  ExpectAll({
      {"add.sat.f32", {F(1), F(1)}, F(1)},
      {"add.sat.f32", {F(-1), F(0.5F)}, 0},
      {"add.sat.f32", {F(0.25F), F(0.5F)}, F(0.75F)},
      {"add.sat.f32", {kNan32, F(0.5F)}, 0},
      {"mul.sat.f32", {F(-0.0F), F(1)}, 0},
      {"mul.rz.sat.f32", {kInf32, F(1)}, F(1)},
      {"fma.rn.sat.f32", {F(2), F(2), F(-3.5F)}, F(0.5F)},
      {"fma.rn.ftz.sat.f32", {F(2), F(2), F(4)}, F(1)},
      {"add.sat.f16", {0x3c00, 0x3c00}, 0x3c00},
      {"mul.sat.f16x2", {0x3c007e00, 0x40003c00}, 0x3c000000},
  });
}

TEST(FloatArithmeticTest, DoublesRoundInEachMode) {
  const uint64_t tiny = 1;
  ExpectAll({
      {"add.f64", {D(1), D(0x1p-53)}, D(1)},
      {"add.rn.f64", {D(1), D(0x1.8p-53)}, D(1 + 0x1p-52)},
      {"add.rz.f64", {D(1), tiny | 0x8000000000000000}, D(1 - 0x1p-53)},
      {"add.rm.f64", {D(1), tiny}, D(1)},
      {"add.rp.f64", {D(1), tiny}, D(1 + 0x1p-52)},
      {"sub.rm.f64", {D(1), D(1)}, D(-0.0)},
      {"mul.f64", {D(3), D(-2)}, D(-6)},
      {"mul.rn.f64", {D(1 + 0x1p-52), D(1 + 0x1p-52)}, D(1 + 0x1p-51)},
      {"sub.rn.f64", {D(1), D(0x1p-54)}, D(1)},
      {"sub.rn.f64", {D(1), D(0x1.8p-54)}, D(1 - 0x1p-53)},
      {"mul.rz.f64", {D(1e308), D(10)}, 0x7fefffffffffffff},
      {"mul.rp.f64", {tiny, tiny}, tiny},
      {"fma.rn.f64", {D(1 + 0x1p-52), D(1 - 0x1p-52), D(-1)}, D(-0x1p-104)},
      {"fma.rz.f64", {D(1), D(1), tiny | 0x8000000000000000}, D(1 - 0x1p-53)},
      {"fma.rm.f64", {D(-1), D(1), tiny | 0x8000000000000000}, D(-1 - 0x1p-52)},
      {"fma.rp.f64", {D(1), D(1), tiny}, D(1 + 0x1p-52)},
      {"mad.rn.f64", {D(2), D(3), D(4)}, D(10)},
      {"div.rn.f64", {D(1), D(3)}, 0x3fd5555555555555},
      {"div.rp.f64", {D(1), D(3)}, 0x3fd5555555555556},
      {"rcp.rn.f64", {D(4)}, D(0.25)},
      {"rcp.rp.f64", {D(3)}, 0x3fd5555555555556},
      {"sqrt.rn.f64", {D(2)}, 0x3ff6a09e667f3bcd},
      {"sqrt.rz.f64", {D(2)}, 0x3ff6a09e667f3bcc},
      {"neg.f64", {D(0)}, D(-0.0)},
      {"abs.f64", {D(-1.5)}, D(1.5)},
      {"copysign.f64", {D(-0.0), D(2)}, D(-2)},
      {"copysign.f32", {F(1), F(-2)}, F(2)},
      {"copysign.f32", {F(-1), kNan32}, 0xffffffff},
  });
}

TEST(FloatArithmeticTest, HalvesRoundOnceAndToTheNearest) {
  const uint64_t tiny_bf16 = 0x8d80;  // -2^-100
  ExpectAll({
      {"add.f16", {0x3c00, 0x1000}, 0x3c00},
      {"add.rn.f16", {0x3c01, 0x1000}, 0x3c02},
      {"sub.f16", {0x3c00, 0x3c00}, 0},
      {"sub.rn.f16", {0x7c00, 0x7c00}, kNan16},
      {"mul.f16", {0x7bff, 0x4000}, 0x7c00},
      {"mul.rn.f16", {0xfe01, 0x3c00}, kNan16},
      {"fma.rn.f16", {0x3c01, 0x3c01, 0xbc02}, 0x0010},
      {"add.bf16", {0x3f80, 0x3b80}, 0x3f80},
      {"add.rn.bf16", {0x3f81, 0x3b80}, 0x3f82},
      {"sub.bf16", {0x3f80, 0x4000}, 0xbf80},
      {"sub.rn.bf16", {0x3f80, 0x3b00}, 0x3f80},
      {"mul.rn.bf16", {0x7f00, 0x4080}, 0x7f80},
      {"fma.rn.bf16", {0x40e0, 0x3e14, 0}, 0x3f82},
      {"fma.rn.bf16", {0x40e0, 0x3e14, tiny_bf16}, 0x3f81},
      {"fma.rn.bf16", {0x40e0, 0x3e14, 0x0d80}, 0x3f82},
      {"fma.rn.relu.f16", {0xbc00, 0x3c00, 0}, 0},
      {"fma.rn.relu.f16", {0x7e00, 0x3c00, 0}, kNan16},
      {"fma.rn.relu.bf16", {0x3f80, 0x3f80, 0x3f80}, 0x4000},
      {"neg.f16", {0x0000}, 0x8000},
      {"neg.bf16", {0xbf80}, 0x3f80},
      {"abs.f16", {0xfc00}, 0x7c00},
      {"abs.bf16", {0xbf80}, 0x3f80},
      {"add.f16x2", {0x3c004000, 0x3c003c00}, 0x40004200},
      {"sub.rn.f16x2", {0x3c004000, 0x3c003c00}, 0x00003c00},
      {"mul.f16x2", {0x40004200, 0x40004000}, 0x44004600},
      {"add.bf16x2", {0x3f804000, 0x3f803f80}, 0x40004040},
      {"sub.bf16x2", {0x3f804000, 0x3f803f80}, 0x00003f80},
      {"mul.bf16x2", {0x40004040, 0x40004000}, 0x408040c0},
      {"fma.rn.f16x2", {0x40004000, 0x42004200, 0x3c000000}, 0x47004600},
      {"fma.rn.sat.f16x2", {0x40004000, 0x42003400, 0x3c000000}, 0x3c003800},
      {"fma.rn.relu.f16x2", {0xc0004000, 0x42004200, 0x3c000000}, 0x00004600},
      {"fma.rn.bf16x2", {0x40004000, 0x40404040, 0x3f800000}, 0x40e040c0},
      {"fma.rn.relu.bf16x2", {0xc0004000, 0x40404040, 0x3f800000}, 0x000040c0},
      {"neg.f16x2", {0x3c00bc00}, 0xbc003c00},
      {"abs.f16x2", {0xbc00bc00}, 0x3c003c00},
      {"neg.bf16x2", {0x3f80bf80}, 0xbf803f80},
      {"abs.bf16x2", {0xbf80bf80}, 0x3f803f80},
      {"add.f32x2", {F(1) << 32 | F(2), F(3) << 32 | F(4)}, F(4) << 32 | F(6)},
      {"mul.rn.f32x2", {F(1) << 32 | F(2), F(3) << 32 | F(4)}, F(3) << 32 | F(8)},
      {"fma.rn.f32x2", {F(1) << 32 | F(2), F(3) << 32 | F(4), F(5) << 32 | F(6)}, F(8) << 32 | F(14)},
  });
}

TEST(FloatArithmeticTest, MinimaAndMaximaKnowNanAndTheSignOfZero) {
  ExpectAll({
      {"min.f32", {F(1), kNan32}, F(1)},
      {"max.f32", {0xffc00000, F(-1)}, F(-1)},
      {"min.f32", {0xffc00001, 0xffc00002}, kNan32},
      {"min.f32", {F(0), F(-0.0F)}, F(-0.0F)},
      {"max.f32", {F(-0.0F), F(0)}, F(0)},
      {"max.f32", {F(-1), F(-2)}, F(-1)},
      {"min.f32", {kInf32 | kSign32, F(-2)}, kInf32 | kSign32},
      {"min.NaN.f32", {F(1), 0xffc00001}, kNan32},
      {"max.NaN.f32", {F(1), F(2)}, F(2)},
      {"min.ftz.f32", {0x80000001, F(1)}, kSign32},
      {"max.ftz.NaN.f32", {kNan32, F(1)}, kNan32},
      {"min.xorsign.abs.f32", {F(-1), F(2)}, F(-1)},
      {"max.xorsign.abs.f32", {F(-1), F(-2)}, F(2)},
      {"max.xorsign.abs.f32", {F(-3), F(2)}, F(-3)},
      {"max.NaN.xorsign.abs.f32", {kNan32, F(-2)}, kNan32},
      {"min.f32", {F(3), F(1), F(2)}, F(1)},
      {"max.f32", {F(1), kNan32, F(2)}, F(2)},
      {"max.NaN.f32", {F(1), kNan32, F(2)}, kNan32},
      {"max.xorsign.abs.f32", {F(-1), F(-2), F(-3)}, F(-3)},
      {"min.f64", {D(1), D(NAN)}, D(1)},
      {"max.f64", {D(-0.0), D(0)}, D(0)},
      {"min.f16", {0x3c00, 0x7e00}, 0x3c00},
      {"max.f16", {0xbc00, 0x0000}, 0x0000},
      {"min.NaN.f16", {0x3c00, 0x7e00}, kNan16},
      {"max.ftz.f16", {0x8001, 0xbc00}, 0x8000},
      {"max.NaN.f16", {0x3c00, 0x4000}, 0x4000},
      {"max.NaN.bf16", {0x7fc0, 0x4000}, kNan16},
      {"max.bf16", {0x3f80, 0x4000}, 0x4000},
      {"min.NaN.bf16", {0x3f80, 0xffff}, kNan16},
      {"min.f16x2", {0x3c007e00, 0x40004000}, 0x3c004000},
      {"max.NaN.f16x2", {0x3c007e00, 0x40004000}, 0x40007fff},
      {"max.bf16x2", {0x3f804000, 0x40003f80}, 0x40004000},
      {"min.NaN.bf16x2", {0x3f807fc0, 0x40003f80}, 0x3f807fff},
      {"min.xorsign.abs.f16x2", {0xbc003c00, 0x4000c000}, 0xbc00bc00},
  });
}

// ---- Compares with exact arithmetic.

using Quad = __float128;

template <typename Float>
struct Operands {
  Float a, b, c;
};

/// Returns the exact value `nearest + rest` rounded by the mode. `nearest`: the nearest float.
template <typename Float>
Float Correct(Float nearest, Quad rest, Rounding rounding, bool negative) {
  const auto up = [&] { return std::nextafter(nearest, std::numeric_limits<Float>::infinity()); };
  const auto down = [&] { return std::nextafter(nearest, -std::numeric_limits<Float>::infinity()); };
  const bool ceiling = rounding == Rounding::kRp || (rounding == Rounding::kRz && negative);
  const bool floor = rounding == Rounding::kRm || (rounding == Rounding::kRz && !negative);
  if (ceiling && rest > 0) return up();
  return floor && rest < 0 ? down() : nearest;
}

template <typename Float>
Float RandomFloat(std::mt19937_64& random) {
  const double fraction = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
  const int exponent = static_cast<int>(random() % 3) - 1;
  return static_cast<Float>(std::ldexp((random() & 1) != 0 ? -fraction : fraction, exponent));
}

template <typename Float>
void ExpectExact(const std::string& type) {
  std::mt19937_64 random(7);
  const auto bits = [](Float value) { return sizeof(Float) == 4 ? F(static_cast<float>(value)) : D(value); };
  const std::pair<const char*, Rounding> modes[] = {
      {"rn", Rounding::kRn}, {"rz", Rounding::kRz}, {"rm", Rounding::kRm}, {"rp", Rounding::kRp}};
  for (int i = 0; i < 3000; ++i) {
    const Operands<Float> in{RandomFloat<Float>(random), RandomFloat<Float>(random), RandomFloat<Float>(random)};
    const Quad a = in.a;
    const Quad b = in.b;
    const Quad c = in.c;
    const Float root = std::sqrt(std::fabs(in.a));
    const Float quotient = in.a / in.b;
    const Quad left = (a - quotient * b) * (in.b < 0 ? -1 : 1);
    for (const auto& [mode, rounding] : modes) {
      const auto expect = [&, mode = mode, rounding = rounding](const char* opcode, std::vector<uint64_t> inputs,
                                                                Float nearest, Quad rest, bool negative) {
        const std::string spelling = std::string(opcode) + "." + mode + "." + type;
        const Operation operation = FindOperation(spelling);
        inputs.resize(4);
        ASSERT_EQ(operation.value.lane(operation.how, inputs[0], inputs[1], inputs[2], 0),
                  bits(Correct(nearest, rest, rounding, negative)))
            << spelling << " " << in.a << " " << in.b << " " << in.c;
      };
      const Quad sum = a + b;
      const Quad product = a * b;
      const Quad both = product + c;
      expect("add", {bits(in.a), bits(in.b)}, static_cast<Float>(sum), sum - static_cast<Float>(sum), sum < 0);
      expect("mul", {bits(in.a), bits(in.b)}, static_cast<Float>(product), product - static_cast<Float>(product),
             product < 0);
      expect("fma", {bits(in.a), bits(in.b), bits(in.c)}, static_cast<Float>(both), both - static_cast<Float>(both),
             both < 0);
      expect("div", {bits(in.a), bits(in.b)}, quotient, left, quotient < 0);
      expect("sqrt", {bits(std::fabs(in.a))}, root, (a < 0 ? -a : a) - static_cast<Quad>(root) * root, false);
    }
  }
}

TEST(FloatArithmeticTest, EveryModeAgreesWithExactArithmetic) {
  ExpectExact<float>("f32");
  ExpectExact<double>("f64");
}

TEST(FloatArithmeticTest, RandomHalvesAgreeWithExactArithmetic) {
  std::mt19937_64 random(3);
  const Operation fma = FindOperation("fma.rn.f16");
  const Operation add = FindOperation("add.bf16");
  int compared = 0;
  for (int i = 0; i < 200000; ++i) {
    const uint64_t a = random() & 0xffff;
    const uint64_t b = random() & 0xffff;
    const uint64_t c = random() & 0xffff;
    const long double product = static_cast<long double>(Decode<Type::kF16>(a)) * Decode<Type::kF16>(b);
    const long double sum = product + Decode<Type::kF16>(c);
    // The test compares the sums that a double holds, which are most sums.
    if (static_cast<long double>(static_cast<double>(sum)) == sum && sum - product == Decode<Type::kF16>(c)) {
      ASSERT_EQ(fma.value.lane(fma.how, a, b, c, 0), Encode<Type::kF16>(static_cast<double>(sum)));
      ++compared;
    }
    const double both = Decode<Type::kBf16>(a) + Decode<Type::kBf16>(b);
    if (both - Decode<Type::kBf16>(a) == Decode<Type::kBf16>(b)) {
      ASSERT_EQ(add.value.lane(add.how, a, b, 0, 0), Encode<Type::kBf16>(both));
    }
  }
  EXPECT_GT(compared, 50000);
}

TEST(FloatArithmeticTest, ModesOfThreadsDoNotMeet) {
  const Operation up = FindOperation("add.rp.f32");
  const Operation down = FindOperation("add.rm.f32");
  const auto repeat = [](const Operation& operation, uint64_t expected) {
    for (int i = 0; i < 20000; ++i) {
      if (operation.value.lane(operation.how, F(1), 1, 0, 0) != expected) return false;
    }
    return true;
  };
  bool rounded_up = false;
  std::thread other([&] { rounded_up = repeat(up, F(1) + 1); });
  EXPECT_TRUE(repeat(down, F(1)));
  other.join();
  EXPECT_TRUE(rounded_up);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

}  // namespace
}  // namespace callout::software_gpu::ptx
