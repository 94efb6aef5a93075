// SPDX-License-Identifier: Apache-2.0
//
// The values are those that ml_dtypes 0.6 gives for the same bits (IEEE 754 for f16), written down, not computed.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "callout/elements.h"

namespace callout {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Known {
  uint16_t bits;
  double value;
};

struct Format {
  DType dtype;
  std::vector<Known> known;
};

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {DType::kFloat16,
       {{0x0000, 0.0},
        {0x8000, -0.0},
        {0x3c00, 1.0},
        {0xc000, -2.0},
        {0x3555, 0.333251953125},
        {0x7bff, 65504.0},
        {0xfbff, -65504.0},
        {0x0400, 6.103515625e-05},
        {0x0001, 5.9604644775390625e-08},
        {0x83ff, -6.097555160522461e-05},
        {0x7c00, kInf},
        {0xfc00, -kInf},
        {0x7c01, kNan},
        {0x7e00, kNan},
        {0xffff, kNan}}},
      {DType::kBfloat16,
       {{0x0000, 0.0},
        {0x8000, -0.0},
        {0x3f80, 1.0},
        {0x4049, 3.140625},
        {0xc000, -2.0},
        {0x7f7f, 3.3895313892515355e+38},
        {0x0080, 1.1754943508222875e-38},
        {0x0001, 9.183549615799121e-41},
        {0x7f80, kInf},
        {0xff80, -kInf},
        {0x7f81, kNan},
        {0x7fc0, kNan}}},
      {DType::kFloat8E5M2,
       {{0x00, 0.0},
        {0x80, -0.0},
        {0x3c, 1.0},
        {0xbd, -1.25},
        {0x7b, 57344.0},
        {0xfb, -57344.0},
        {0x04, 6.103515625e-05},
        {0x01, 1.52587890625e-05},
        {0x83, -4.57763671875e-05},
        {0x7c, kInf},
        {0xfc, -kInf},
        {0x7d, kNan},
        {0xff, kNan}}},
      {DType::kFloat8E4M3,
       {{0x00, 0.0},
        {0x80, -0.0},
        {0x38, 1.0},
        {0xb9, -1.125},
        {0x77, 240.0},
        {0xf7, -240.0},
        {0x08, 0.015625},
        {0x01, 0.001953125},
        {0x87, -0.013671875},
        {0x78, kInf},
        {0xf8, -kInf},
        {0x79, kNan},
        {0x7c, kNan},
        {0xff, kNan}}},
      {DType::kFloat8E3M4,
       {{0x00, 0.0},
        {0x80, -0.0},
        {0x30, 1.0},
        {0xb1, -1.0625},
        {0x6f, 15.5},
        {0xef, -15.5},
        {0x10, 0.25},
        {0x01, 0.015625},
        {0x8f, -0.234375},
        {0x70, kInf},
        {0xf0, -kInf},
        {0x71, kNan},
        {0x78, kNan},
        {0xff, kNan}}},
      {DType::kFloat8E4M3Fn,
       {{0x00, 0.0},
        {0x80, -0.0},
        {0x38, 1.0},
        {0xb9, -1.125},
        {0x78, 256.0},
        {0x7e, 448.0},
        {0xfe, -448.0},
        {0x08, 0.015625},
        {0x01, 0.001953125},
        {0x87, -0.013671875},
        {0x7f, kNan},
        {0xff, kNan}}},
      {DType::kFloat8E4M3B11Fnuz,
       {{0x00, 0.0},
        {0x58, 1.0},
        {0xd9, -1.125},
        {0x78, 16.0},
        {0x7f, 30.0},
        {0xff, -30.0},
        {0x08, 0.0009765625},
        {0x01, 0.0001220703125},
        {0x87, -0.0008544921875},
        {0x80, kNan}}},
      {DType::kFloat8E5M2Fnuz,
       {{0x00, 0.0},
        {0x40, 1.0},
        {0xc1, -1.25},
        {0x7c, 32768.0},
        {0x7f, 57344.0},
        {0xff, -57344.0},
        {0x04, 3.0517578125e-05},
        {0x01, 7.62939453125e-06},
        {0x83, -2.288818359375e-05},
        {0x80, kNan}}},
      {DType::kFloat8E4M3Fnuz,
       {{0x00, 0.0},
        {0x40, 1.0},
        {0xc1, -1.125},
        {0x78, 128.0},
        {0x7f, 240.0},
        {0xff, -240.0},
        {0x08, 0.0078125},
        {0x01, 0.0009765625},
        {0x87, -0.0068359375},
        {0x80, kNan}}},
      {DType::kFloat4E2M1Fn,
       {{0x0, 0.0},
        {0x1, 0.5},
        {0x2, 1.0},
        {0x3, 1.5},
        {0x4, 2.0},
        {0x5, 3.0},
        {0x6, 4.0},
        {0x7, 6.0},
        {0x8, -0.0},
        {0x9, -0.5},
        {0xa, -1.0},
        {0xb, -1.5},
        {0xc, -2.0},
        {0xd, -3.0},
        {0xe, -4.0},
        {0xf, -6.0}}},
      {DType::kFloat8E8M0Fnu,
       {{0x7f, 1.0},
        {0x80, 2.0},
        {0x7e, 0.5},
        {0x00, 5.877471754111438e-39},
        {0xfe, 1.7014118346046923e+38},
        {0xff, kNan}}},
  };
  return formats;
}

class SmallFloatTest : public ::testing::TestWithParam<Format> {};

TEST_P(SmallFloatTest, KnownBitsHaveKnownValues) {
  const Format& format = GetParam();
  for (const Known& known : format.known) {
    const double value = SmallFloatToFloat(format.dtype, known.bits);
    SCOPED_TRACE(::testing::Message() << ShortName(format.dtype) << " 0x" << std::hex << known.bits);
    if (std::isnan(known.value)) {
      EXPECT_TRUE(std::isnan(value)) << value;
    } else {
      EXPECT_EQ(value, known.value);
      EXPECT_EQ(std::signbit(value), std::signbit(known.value));
    }
  }
}

TEST_P(SmallFloatTest, NumbersOfOneSignGrowWithTheirBits) {
  const DType dtype = GetParam().dtype;
  const int patterns = dtype == DType::kFloat8E8M0Fnu ? 256 : 1 << (BitWidth(dtype) - 1);
  double last = -1;
  int numbers = 0;
  for (int bits = 0; bits < patterns; ++bits) {
    const double value = SmallFloatToFloat(dtype, static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_GT(value, last) << bits;
    last = value;
    ++numbers;
  }
  EXPECT_GT(numbers, patterns * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloatTest, ::testing::ValuesIn(Formats()),
                         [](const auto& test) { return std::string(ShortName(test.param.dtype)); });

TEST(SmallFloatEdgeTest, EveryBfloat16IsTheUpperHalfOfAFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float expected = std::bit_cast<float>(bits << 16);
    const float value = SmallFloatToFloat(DType::kBfloat16, static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    }
  }
}

TEST(SmallFloatEdgeTest, OtherTypesHaveNoSmallFloats) {
  for (const DType dtype : {DType::kFloat32, DType::kInt8, DType::kBool, DType::kToken, DType::kInvalid}) {
    EXPECT_TRUE(std::isnan(SmallFloatToFloat(dtype, 0x38))) << ShortName(dtype);
  }
}

}  // namespace
}  // namespace callout
