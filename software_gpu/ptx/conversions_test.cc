// SPDX-License-Identifier: Apache-2.0
#include "ptx/conversions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ptx/evaluate.h"
#include "ptx/slow_floats.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kInfinity32 = 0x7f800000;

TEST(ConversionsTest, IntegersAreCutExtendedOrClamped) {
  ExpectAll({
      {"cvt.u32.u8", {0x1ff}, 0xff},
      {"cvt.s32.s8", {0x80}, 0xffffff80},
      {"cvt.u32.s8", {0x80}, 0xffffff80},
      {"cvt.s16.s8", {0xff}, 0xffff},
      {"cvt.u64.u32", {0xffffffff}, 0xffffffff},
      {"cvt.s64.s32", {0x80000000}, 0xffffffff80000000},
      {"cvt.u64.s32", {0xffffffff}, kOnes},
      {"cvt.u16.u64", {0x12345}, 0x2345},
      {"cvt.u32.u64", {0x123456789}, 0x23456789},
      {"cvt.s8.s32", {0x180}, 0x80},
      {"cvt.u8.u32", {0x1234}, 0x34},
      {"cvt.s32.s32", {0xffffffff}, 0xffffffff},
      {"cvt.sat.u8.s32", {0xffffffff}, 0},
      {"cvt.sat.u8.s32", {256}, 255},
      {"cvt.sat.s8.s32", {0xffffff00}, 0x80},
      {"cvt.sat.s8.u32", {200}, 127},
      {"cvt.sat.s32.s64", {0x8000000000000000}, 0x80000000},
      {"cvt.sat.s32.u32", {0xffffffff}, 0x7fffffff},
      {"cvt.sat.u32.s64", {0x100000000}, 0xffffffff},
      {"cvt.sat.u64.s64", {kOnes}, 0},
      {"cvt.sat.s64.u64", {kOnes}, 0x7fffffffffffffff},
  });
}

TEST(ConversionsTest, FloatsBecomeTheIntegerOfTheirRounding) {
  ExpectAll({
      {"cvt.rni.s32.f32", {F(2.5F)}, 2},
      {"cvt.rni.s32.f32", {F(3.5F)}, 4},
      {"cvt.rni.s32.f32", {F(-2.5F)}, 0xfffffffe},
      {"cvt.rzi.s32.f32", {F(-2.7F)}, 0xfffffffe},
      {"cvt.rmi.s32.f32", {F(-2.1F)}, 0xfffffffd},
      {"cvt.rpi.s32.f32", {F(2.1F)}, 3},
      {"cvt.rpi.s32.f32", {0x00000001}, 1},
      {"cvt.rpi.ftz.s32.f32", {0x00000001}, 0},
      {"cvt.rmi.ftz.s32.f32", {0x80000001}, 0},
      {"cvt.rzi.u32.f32", {F(-1)}, 0},
      {"cvt.rzi.u32.f32", {F(4294967040.0F)}, 0xffffff00},
      {"cvt.rzi.u32.f32", {F(4294967296.0F)}, 0xffffffff},
      {"cvt.rzi.s32.f32", {F(2147483648.0F)}, 0x7fffffff},
      {"cvt.rzi.s32.f32", {F(-3e9F)}, 0x80000000},
      {"cvt.rzi.s32.f32", {kInfinity32}, 0x7fffffff},
      {"cvt.rzi.sat.s32.f32", {kInfinity32 | 0x80000000}, 0x80000000},
      {"cvt.rzi.u8.f32", {F(300)}, 255},
      {"cvt.rzi.s8.f32", {F(-300)}, 0x80},
      {"cvt.rzi.s16.f32", {F(40000)}, 0x7fff},
      {"cvt.rzi.u16.f64", {D(65535.9)}, 0xffff},
      {"cvt.rni.s64.f32", {F(0x1p62F)}, 0x4000000000000000},
      {"cvt.rzi.s64.f64", {D(0x1p63)}, 0x7fffffffffffffff},
      {"cvt.rzi.s64.f64", {D(-0x1p63)}, 0x8000000000000000},
      {"cvt.rzi.u64.f64", {D(0x1.fffffffffffffp63)}, 0xfffffffffffff800},
      {"cvt.rzi.u64.f64", {D(0x1p64)}, kOnes},
      {"cvt.rmi.s32.f64", {D(-0.5)}, 0xffffffff},
      {"cvt.rzi.s32.f16", {0xc500}, 0xfffffffb},
      {"cvt.rni.s16.f16", {0x4500}, 5},
      {"cvt.rzi.u64.f16", {0x7c00}, kOnes},
      {"cvt.rzi.s32.bf16", {0xc0a0}, 0xfffffffb},
  });
}

TEST(ConversionsTest, NanBecomesZeroOrTheSignBitAlone) {
  ExpectAll({
      {"cvt.rzi.s32.f32", {F(NAN)}, 0},
      {"cvt.rzi.u32.f32", {F(NAN)}, 0},
      {"cvt.rzi.u8.f16", {0x7e00}, 0},
      {"cvt.rzi.s64.f32", {F(NAN)}, 0x8000000000000000},
      {"cvt.rzi.u64.f16", {0x7e00}, 0x8000000000000000},
      {"cvt.rzi.s32.f64", {D(NAN)}, 0x80000000},
      {"cvt.rzi.u32.f64", {D(NAN)}, 0x80000000},
      {"cvt.rzi.u16.f64", {D(NAN)}, 0x8000},
  });
}

TEST(ConversionsTest, IntegersBecomeTheFloatOfTheirRounding) {
  ExpectAll({
      {"cvt.rn.f32.s32", {0xffffffff}, F(-1)},
      {"cvt.rn.f32.u32", {0xffffffff}, F(4294967296.0F)},
      {"cvt.rz.f32.u32", {0xffffffff}, F(4294967040.0F)},
      {"cvt.rm.f32.s32", {0x7fffffff}, F(2147483520.0F)},
      {"cvt.rp.f32.s32", {0x7fffffff}, F(2147483648.0F)},
      {"cvt.rm.f32.s32", {0x80000001}, F(-2147483648.0F)},
      {"cvt.rp.f32.s32", {0x80000001}, F(-2147483520.0F)},
      {"cvt.rn.f32.s32", {16777217}, F(16777216.0F)},
      {"cvt.rn.f32.s32", {16777219}, F(16777220.0F)},
      {"cvt.rn.f32.u64", {kOnes}, F(0x1p64F)},
      {"cvt.rz.f32.u64", {kOnes}, F(0x1.fffffep63F)},
      {"cvt.rn.f32.s64", {0x8000000000000000}, F(-0x1p63F)},
      {"cvt.rn.f64.u64", {kOnes}, D(0x1p64)},
      {"cvt.rz.f64.u64", {kOnes}, D(0x1.fffffffffffffp63)},
      {"cvt.rp.f64.s64", {0x7fffffffffffffff}, D(0x1p63)},
      {"cvt.rm.f64.s64", {0x8000000000000001}, D(-0x1p63)},
      {"cvt.rn.f64.s32", {0x80000000}, D(-2147483648.0)},
      {"cvt.rn.f32.u8", {0x1ff}, F(255)},
      {"cvt.rn.f32.s8", {0x80}, F(-128)},
      {"cvt.rn.f32.u16", {0xffff}, F(65535)},
      {"cvt.rn.f64.s16", {0x8000}, D(-32768)},
      {"cvt.rn.f16.s32", {65504}, 0x7bff},
      {"cvt.rn.f16.s32", {65520}, 0x7c00},
      {"cvt.rz.f16.s32", {100000}, 0x7bff},
      {"cvt.rn.f16.s16", {0xfffe}, 0xc000},
      {"cvt.rn.f16.u64", {2049}, 0x6800},
      {"cvt.rp.f16.u64", {2049}, 0x6801},
      {"cvt.rn.bf16.u32", {257}, 0x4380},
      {"cvt.rn.bf16.s64", {kOnes}, 0xbf80},
      {"cvt.rn.sat.f32.s32", {5}, F(1)},
      {"cvt.rn.sat.f32.s32", {0xffffffff}, 0},
      {"cvt.rn.f32.s32", {0}, 0},
  });
}

TEST(ConversionsTest, FloatsChangeTheirFormat) {
  ExpectAll({
      {"cvt.f64.f32", {F(1.5F)}, D(1.5)},
      {"cvt.f64.f32", {0x00000001}, D(0x1p-149)},
      {"cvt.ftz.f64.f32", {0x80000001}, D(-0.0)},
      {"cvt.rn.f32.f64", {D(1 + 0x1p-24)}, F(1)},
      {"cvt.rz.f32.f64", {D(1 + 0x1.8p-23)}, F(1 + 0x1p-23F)},
      {"cvt.rm.f32.f64", {D(-1 - 0x1p-40)}, F(-1 - 0x1p-23F)},
      {"cvt.rp.f32.f64", {D(1e300)}, kInfinity32},
      {"cvt.rz.f32.f64", {D(1e300)}, 0x7f7fffff},
      {"cvt.rn.f32.f64", {0xfff8000000000001}, 0x7fffffff},
      {"cvt.rn.ftz.f32.f64", {D(0x1p-140)}, 0},
      {"cvt.rn.f32.f64", {D(0x1p-140)}, 0x200},
      {"cvt.rn.sat.f32.f64", {D(7)}, F(1)},
      {"cvt.rn.f16.f32", {F(1 + 0x1p-11F)}, 0x3c00},
      {"cvt.rn.f16.f32", {F(65520)}, 0x7c00},
      {"cvt.rz.f16.f32", {F(65520)}, 0x7bff},
      {"cvt.rm.f16.f32", {F(-1 - 0x1p-20F)}, 0xbc01},
      {"cvt.rp.f16.f32", {F(0x1p-30F)}, 1},
      {"cvt.rn.ftz.f16.f32", {F(0x1p-130F)}, 0},
      {"cvt.rn.f16.f32", {0xffc00000}, 0x7fff},
      {"cvt.rn.relu.f16.f32", {F(-1)}, 0},
      {"cvt.rn.satfinite.f16.f32", {kInfinity32}, 0x7bff},
      {"cvt.rn.f16.f64", {D(1 + 0x1p-11 + 0x1p-40)}, 0x3c01},
      {"cvt.f32.f16", {0x0001}, F(0x1p-24F)},
      {"cvt.f32.f16", {0xfc00}, kInfinity32 | 0x80000000},
      {"cvt.f32.f16", {0xfe00}, 0x7fffffff},
      {"cvt.f64.f16", {0x3c01}, D(1 + 0x1p-10)},
      {"cvt.sat.f32.f16", {0x4000}, F(1)},
      {"cvt.rn.bf16.f32", {0x3f808000}, 0x3f80},
      {"cvt.rn.bf16.f32", {0x3f818000}, 0x3f82},
      {"cvt.rz.bf16.f32", {0x3f80ffff}, 0x3f80},
      {"cvt.rn.bf16.f32", {0x7f7fffff}, 0x7f80},
      {"cvt.rn.satfinite.bf16.f32", {0xff7fffff}, 0xff7f},
      {"cvt.rn.relu.bf16.f32", {F(-1)}, 0},
      {"cvt.rn.bf16.f32", {0xffc00000}, 0x7fff},
      {"cvt.f32.bf16", {0x3f80}, F(1)},
      {"cvt.f32.bf16", {0x0001}, 0x10000},
      {"cvt.rn.bf16.f64", {D(1 + 0x1p-8 + 0x1p-50)}, 0x3f81},
      {"cvt.f64.bf16", {0xbf80}, D(-1)},
      {"cvt.rn.bf16.f16", {0x3c01}, 0x3f80},
      {"cvt.rn.f16.bf16", {0x7f00}, 0x7c00},
  });
}

TEST(ConversionsTest, FloatsAreRoundedToIntegersInTheirFormat) {
  ExpectAll({
      {"cvt.rni.f32.f32", {F(2.5F)}, F(2)},
      {"cvt.rni.f32.f32", {F(-0.4F)}, F(-0.0F)},
      {"cvt.rzi.f32.f32", {F(-2.7F)}, F(-2)},
      {"cvt.rmi.f32.f32", {F(-0.5F)}, F(-1)},
      {"cvt.rpi.f32.f32", {0x00000001}, F(1)},
      {"cvt.rpi.ftz.f32.f32", {0x00000001}, 0},
      {"cvt.rmi.f32.f32", {kInfinity32}, kInfinity32},
      {"cvt.rzi.f32.f32", {0xffc00001}, 0x7fffffff},
      {"cvt.rni.sat.f32.f32", {F(3)}, F(1)},
      {"cvt.rni.f64.f64", {D(0.5)}, D(0)},
      {"cvt.rpi.f64.f64", {D(-0.5)}, D(-0.0)},
      {"cvt.rzi.f64.f64", {D(1e300)}, D(1e300)},
      {"cvt.rmi.f16.f16", {0x3e00}, 0x3c00},
      {"cvt.rpi.bf16.bf16", {0x3fc0}, 0x4000},
      {"cvt.sat.f32.f32", {F(-3)}, 0},
      {"cvt.sat.f32.f32", {F(NAN)}, 0},
      {"cvt.ftz.f32.f32", {0x80000001}, 0x80000000},
      {"cvt.f64.f64", {D(3)}, D(3)},
  });
}

TEST(ConversionsTest, NarrowFormatsArePackedWithTheFirstAbove) {
  ExpectAll({
      {"cvt.rn.f16x2.f32", {F(1), F(-2)}, 0x3c00c000},
      {"cvt.rz.f16x2.f32", {F(65520), F(1 + 0x1p-11F)}, 0x7bff3c00},
      {"cvt.rn.relu.f16x2.f32", {F(-1), F(NAN)}, 0x00007fff},
      {"cvt.rn.satfinite.f16x2.f32", {F(1e9F), F(-1e9F)}, 0x7bfffbff},
      {"cvt.rn.bf16x2.f32", {F(1), F(2)}, 0x3f804000},
      {"cvt.rz.bf16x2.f32", {0x3f80ffff, F(-2)}, 0x3f80c000},
      {"cvt.rn.relu.bf16x2.f32", {F(-0.0F), F(2)}, 0x00004000},
      {"cvt.rn.satfinite.e4m3x2.f32", {F(448), F(-1)}, 0x7eb8},
      {"cvt.rn.satfinite.e4m3x2.f32", {F(1e9F), F(NAN)}, 0x7e7f},
      {"cvt.rn.satfinite.relu.e4m3x2.f32", {F(-1), F(0x1p-9F)}, 0x0001},
      {"cvt.rn.satfinite.e5m2x2.f32", {F(1e9F), F(0x1p-16F)}, 0x7b01},
      {"cvt.rn.satfinite.e5m2x2.f32", {F(1.125F), F(1.375F)}, 0x3c3e},
      {"cvt.rn.satfinite.e4m3x2.f16x2", {0x3c007c00}, 0x387e},
      {"cvt.rn.satfinite.relu.e5m2x2.f16x2", {0xbc003c00}, 0x003c},
      {"cvt.rn.satfinite.e4m3x2.bf16x2", {0x3f80bf80}, 0x38b8},
      {"cvt.rn.f16x2.e4m3x2", {0x7e01}, 0x5f001800},
      {"cvt.rn.f16x2.e4m3x2", {0x7fb8}, 0x7fffbc00},
      {"cvt.rn.relu.f16x2.e4m3x2", {0xb838}, 0x00003c00},
      {"cvt.rn.f16x2.e5m2x2", {0x7c01}, 0x7c000100},
      {"cvt.rna.tf32.f32", {0x3f801000}, 0x3f802000},
      {"cvt.rn.tf32.f32", {0x3f801000}, 0x3f800000},
      {"cvt.rz.tf32.f32", {0x3f803fff}, 0x3f802000},
      {"cvt.rna.tf32.f32", {0x7f7fffff}, kInfinity32},
      {"cvt.rna.satfinite.tf32.f32", {0x7f7fffff}, 0x7f7fe000},
      {"cvt.rn.relu.tf32.f32", {F(-1)}, 0},
      {"cvt.rna.tf32.f32", {0xffc00000}, 0x7fffffff},
      {"cvt.pack.sat.u16.s32", {0xffffffff, 70000}, 0x0000ffff},
      {"cvt.pack.sat.s16.s32", {0xffff0000, 5}, 0x80000005},
      {"cvt.pack.sat.u8.s32.b32", {300, 7, 0xaabbccdd}, 0xccddff07},
      {"cvt.pack.sat.s8.s32.b32", {0xffffff00, 200, 0}, 0x807f},
  });
}

// ---- Converts each type to each other, and compares with long double, which holds every value of all types.

struct Kind {
  const char* name;
  Type type;
  Format format = {1, 1};  // of floats
};

constexpr Kind kKinds[] = {
    {"u8", Type::kU8},
    {"u16", Type::kU16},
    {"u32", Type::kU32},
    {"u64", Type::kU64},
    {"s8", Type::kS8},
    {"s16", Type::kS16},
    {"s32", Type::kS32},
    {"s64", Type::kS64},
    {"f16", Type::kF16, FormatOf<Type::kF16>()},
    {"bf16", Type::kBf16, FormatOf<Type::kBf16>()},
    {"f32", Type::kF32, FormatOf<Type::kF32>()},
    {"f64", Type::kF64, FormatOf<Type::kF64>()},
};

long double ValueOf(const Kind& kind, uint64_t bits) {
  if (IsFloat(kind.type)) return SlowValue(kind.format, bits);
  if (IsSigned(kind.type)) return static_cast<long double>(static_cast<int64_t>(SignExtend(bits, Bits(kind.type))));
  return static_cast<long double>(bits);
}

long double RoundedSlowly(long double value, const std::string& mode) {
  if (mode == "rzi") return std::trunc(value);
  if (mode == "rmi") return std::floor(value);
  return mode == "rpi" ? std::ceil(value) : std::nearbyint(value);
}

/// Returns an integer clamped to the range of `kind`.
uint64_t ClampedSlowly(const Kind& kind, long double value) {
  const int digits = Bits(kind.type) - (IsSigned(kind.type) ? 1 : 0);
  const long double above = std::ldexp(1.0L, digits);
  if (value >= above) return ZeroExtend(kOnes, digits);
  if (!IsSigned(kind.type)) return value < 0 ? 0 : static_cast<uint64_t>(value);
  if (value < -above) return uint64_t{1} << digits;
  return ZeroExtend(static_cast<uint64_t>(static_cast<int64_t>(value)), Bits(kind.type));
}

/// Checks one spelling with values at the edges of `from` and random ones; NaN and infinity have tests of their own.
template <typename Expected>
void ExpectConverts(const std::string& spelling, const Kind& from, Expected expected) {
  std::mt19937_64 random(11);
  const Operation operation = FindOperation(spelling);
  ASSERT_TRUE(operation.value) << spelling;
  for (int i = 0; i < 200; ++i) {
    uint64_t bits = ZeroExtend(random(), Bits(from.type));
    if (!IsFloat(from.type) && i < 8)
      bits = ZeroExtend(uint64_t{1} << (Bits(from.type) - 1 - i % 2) | (i < 4 ? 0 : kOnes >> 3), Bits(from.type));
    if (!IsFloat(from.type) && i >= 100) bits &= 0xff;
    // Half of the floats are in the range of integers.
    if (IsFloat(from.type) && i < 100) {
      const uint64_t exponent = static_cast<uint64_t>(from.format.bias() + i % std::min(from.format.bias(), 66) - 1);
      bits = (bits & ~(from.format.special())) | exponent << from.format.fraction_bits;
    }
    const long double value = ValueOf(from, bits);
    if (!std::isfinite(value)) continue;
    const uint64_t result = operation.value.lane(operation.how, bits, 0, 0, 0);
    ASSERT_EQ(result, expected(bits, value)) << spelling << std::hex << " 0x" << bits;
  }
}

uint64_t BitsOfSlowly(const Kind& to, long double value, Rounding rounding, bool negative) {
  const auto result = static_cast<double>(SlowRound(to.format, value, rounding));
  const uint64_t sign = negative ? to.format.sign() : 0;
  const double magnitude = std::fabs(result);
  // The values of a format have the order of their bits, so a binary search finds the bits of the result.
  uint64_t low = 0;
  uint64_t high = to.format.special();
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (SlowValue(to.format, middle) < magnitude) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return sign | low;
}

void ExpectConvertsToFloat(const Kind& to, const Kind& from) {
  const bool exact = IsFloat(from.type) && (to.type == from.type || Bits(to.type) > Bits(from.type));
  const std::pair<const char*, Rounding> modes[] = {
      {"rn.", Rounding::kRn}, {"rz.", Rounding::kRz}, {"rm.", Rounding::kRm}, {"rp.", Rounding::kRp}};
  for (const auto& [mode, rounding] : modes) {
    ExpectConverts(std::string("cvt.") + (exact ? "" : mode) + to.name + "." + from.name, from,
                   [&, rounding = rounding](uint64_t bits, long double value) {
                     const bool negative = IsFloat(from.type) ? (bits & from.format.sign()) != 0 : value < 0;
                     return BitsOfSlowly(to, value, rounding, negative);
                   });
  }
}

void ExpectConvertsToInteger(const Kind& to, const Kind& from) {
  const std::string types = std::string(to.name) + "." + from.name;
  if (IsFloat(from.type)) {
    for (const char* mode : {"rni", "rzi", "rmi", "rpi"}) {
      ExpectConverts(std::string("cvt.") + mode + "." + types, from, [&](uint64_t /*bits*/, long double value) {
        return ClampedSlowly(to, RoundedSlowly(value, mode));
      });
    }
    return;
  }
  ExpectConverts("cvt." + types, from, [&](uint64_t bits, long double /*value*/) {
    return ZeroExtend(IsSigned(from.type) ? SignExtend(bits, Bits(from.type)) : bits, Bits(to.type));
  });
  if (FindOperation("cvt.sat." + types).value) {
    ExpectConverts("cvt.sat." + types, from,
                   [&](uint64_t /*bits*/, long double value) { return ClampedSlowly(to, value); });
  }
}

TEST(ConversionsTest, EveryTypeIsConvertedToEveryOther) {
  for (const Kind& to : kKinds) {
    for (const Kind& from : kKinds) {
      if (IsFloat(to.type)) {
        ExpectConvertsToFloat(to, from);
      } else {
        ExpectConvertsToInteger(to, from);
      }
    }
  }
}

TEST(ConversionsTest, EveryFloatIsRoundedToIntegersInEachMode) {
  for (const Kind& kind : kKinds) {
    if (!IsFloat(kind.type)) continue;
    for (const char* mode : {"rni", "rzi", "rmi", "rpi"}) {
      ExpectConverts(
          std::string("cvt.") + mode + "." + kind.name + "." + kind.name, kind, [&](uint64_t bits, long double value) {
            return BitsOfSlowly(kind, RoundedSlowly(value, mode), Rounding::kRn, (bits & kind.format.sign()) != 0);
          });
    }
  }
}

TEST(ConversionsTest, RegistersWiderThanTheTypeAreFilledByItsSign) {
  EXPECT_EQ(ToRegister(Type::kS8, 0x80, 16), 0xff80U);
  EXPECT_EQ(ToRegister(Type::kS8, 0x80, 32), 0xffffff80U);
  EXPECT_EQ(ToRegister(Type::kS16, 0x8000, 64), 0xffffffffffff8000U);
  EXPECT_EQ(ToRegister(Type::kU8, 0x80, 32), 0x80U);
  EXPECT_EQ(ToRegister(Type::kF16, 0x8000, 32), 0x8000U);
  EXPECT_EQ(ToRegister(Type::kS64, kOnes, 64), kOnes);
}

}  // namespace
}  // namespace callout::software_gpu::ptx
