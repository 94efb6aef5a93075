// SPDX-License-Identifier: Apache-2.0
//
// Tests of element types. The expected values are those of ml_dtypes 0.6 for the same bits (IEEE 754 for f16), as
// constants.
#include "callout/elements.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "callout/dtype.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {
namespace {

struct Expected {
  int bits;
  std::string_view short_name;
  std::string_view numpy_name;
};

// The keys are XLA's own enumerators, so that the tests fail if a DType does not have XLA's number.
const std::map<uint32_t, Expected>& Table() {
  static const std::map<uint32_t, Expected> table = {
      {XLA_FFI_DataType_PRED, {8, "bool", "bool"}},
      {XLA_FFI_DataType_S1, {1, "s1", "int1"}},
      {XLA_FFI_DataType_S2, {2, "s2", "int2"}},
      {XLA_FFI_DataType_S4, {4, "s4", "int4"}},
      {XLA_FFI_DataType_S8, {8, "s8", "int8"}},
      {XLA_FFI_DataType_S16, {16, "s16", "int16"}},
      {XLA_FFI_DataType_S32, {32, "s32", "int32"}},
      {XLA_FFI_DataType_S64, {64, "s64", "int64"}},
      {XLA_FFI_DataType_U1, {1, "u1", "uint1"}},
      {XLA_FFI_DataType_U2, {2, "u2", "uint2"}},
      {XLA_FFI_DataType_U4, {4, "u4", "uint4"}},
      {XLA_FFI_DataType_U8, {8, "u8", "uint8"}},
      {XLA_FFI_DataType_U16, {16, "u16", "uint16"}},
      {XLA_FFI_DataType_U32, {32, "u32", "uint32"}},
      {XLA_FFI_DataType_U64, {64, "u64", "uint64"}},
      {XLA_FFI_DataType_F16, {16, "f16", "float16"}},
      {XLA_FFI_DataType_F32, {32, "f32", "float32"}},
      {XLA_FFI_DataType_F64, {64, "f64", "float64"}},
      {XLA_FFI_DataType_BF16, {16, "bf16", "bfloat16"}},
      {XLA_FFI_DataType_C64, {64, "c64", "complex64"}},
      {XLA_FFI_DataType_C128, {128, "c128", "complex128"}},
      {XLA_FFI_DataType_TOKEN, {0, "token", ""}},
      {XLA_FFI_DataType_F8E5M2, {8, "f8e5m2", "float8_e5m2"}},
      {XLA_FFI_DataType_F8E3M4, {8, "f8e3m4", "float8_e3m4"}},
      {XLA_FFI_DataType_F8E4M3, {8, "f8e4m3", "float8_e4m3"}},
      {XLA_FFI_DataType_F8E4M3FN, {8, "f8e4m3fn", "float8_e4m3fn"}},
      {XLA_FFI_DataType_F8E4M3B11FNUZ, {8, "f8e4m3b11fnuz", "float8_e4m3b11fnuz"}},
      {XLA_FFI_DataType_F8E5M2FNUZ, {8, "f8e5m2fnuz", "float8_e5m2fnuz"}},
      {XLA_FFI_DataType_F8E4M3FNUZ, {8, "f8e4m3fnuz", "float8_e4m3fnuz"}},
      {XLA_FFI_DataType_F4E2M1FN, {4, "f4e2m1fn", "float4_e2m1fn"}},
      {XLA_FFI_DataType_F8E8M0FNU, {8, "f8e8m0fnu", "float8_e8m0fnu"}},
  };
  return table;
}

TEST(DTypeTest, EveryNumberHasItsWidthAndNamesAndNoOtherHas) {
  for (uint32_t number = 0; number < 256; ++number) {
    const auto it = Table().find(number);
    const Expected expected = it != Table().end() ? it->second : Expected{0, "?", ""};
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(BitWidth(dtype), expected.bits) << number;
    EXPECT_EQ(ShortName(dtype), expected.short_name) << number;
    EXPECT_EQ(NumpyName(dtype), expected.numpy_name) << number;
  }
}

TEST(DTypeTest, KindTellsWhatElementsAre) {
  EXPECT_EQ(KindOf(DType::kBool), DTypeKind::kBool);
  EXPECT_EQ(KindOf(DType::kInt4), DTypeKind::kSigned);
  EXPECT_EQ(KindOf(DType::kUint64), DTypeKind::kUnsigned);
  EXPECT_EQ(KindOf(DType::kFloat8E8M0Fnu), DTypeKind::kFloat);
  EXPECT_EQ(KindOf(DType::kComplex64), DTypeKind::kComplex);
  EXPECT_EQ(KindOf(DType::kToken), DTypeKind::kToken);
  for (const uint32_t number : {0U, 13U, kDTypeLimit, 255U}) {
    EXPECT_EQ(KindOf(static_cast<DType>(number)), DTypeKind::kUnknown) << number;
  }
}

TEST(DTypeTest, LimitIsOneMoreThanTheLargestNumber) { EXPECT_EQ(kDTypeLimit, Table().rbegin()->first + 1); }

TEST(DTypeTest, EnumeratorsHaveXlasNumbers) {
  EXPECT_EQ(static_cast<uint32_t>(DType::kInvalid), XLA_FFI_DataType_INVALID);
  EXPECT_EQ(ShortName(DType::kInt1), "s1");
  EXPECT_EQ(ShortName(DType::kUint2), "u2");
  EXPECT_EQ(ShortName(DType::kFloat64), "f64");
  EXPECT_EQ(ShortName(DType::kComplex128), "c128");
  EXPECT_EQ(ShortName(DType::kFloat8E4M3B11Fnuz), "f8e4m3b11fnuz");
  EXPECT_EQ(ShortName(DType::kFloat8E8M0Fnu), "f8e8m0fnu");
}

TEST(DTypeTest, PackedBytesRoundsUpToWholeBytes) {
  EXPECT_EQ(PackedBytes(DType::kInt4, 0), 0U);
  EXPECT_EQ(PackedBytes(DType::kInt4, 1), 1U);
  EXPECT_EQ(PackedBytes(DType::kInt4, 2), 1U);
  EXPECT_EQ(PackedBytes(DType::kInt4, 3), 2U);
  EXPECT_EQ(PackedBytes(DType::kUint2, 4), 1U);
  EXPECT_EQ(PackedBytes(DType::kUint2, 5), 2U);
  EXPECT_EQ(PackedBytes(DType::kInt1, 8), 1U);
  EXPECT_EQ(PackedBytes(DType::kInt1, 9), 2U);
  EXPECT_EQ(PackedBytes(DType::kFloat4E2M1Fn, 7), 4U);
}

TEST(DTypeTest, PackedBytesOfWholeByteTypes) {
  EXPECT_EQ(PackedBytes(DType::kBool, 3), 3U);
  EXPECT_EQ(PackedBytes(DType::kFloat16, 3), 6U);
  EXPECT_EQ(PackedBytes(DType::kComplex128, 3), 48U);
  EXPECT_EQ(PackedBytes(DType::kFloat64, int64_t{1} << 40), uint64_t{1} << 43);
  EXPECT_EQ(PackedBytes(DType::kToken, 1), 0U);
}

template <typename T>
void ExpectSizeOf() {
  EXPECT_EQ(BitWidth(DTypeOf<T>::value), static_cast<int>(8 * sizeof(T))) << NumpyName(DTypeOf<T>::value);
}

TEST(DTypeTest, CppTypesAreAsWideAsTheirDType) {
  ExpectSizeOf<bool>();
  ExpectSizeOf<int8_t>();
  ExpectSizeOf<int16_t>();
  ExpectSizeOf<int32_t>();
  ExpectSizeOf<int64_t>();
  ExpectSizeOf<uint8_t>();
  ExpectSizeOf<uint16_t>();
  ExpectSizeOf<uint32_t>();
  ExpectSizeOf<uint64_t>();
  ExpectSizeOf<float>();
  ExpectSizeOf<double>();
  ExpectSizeOf<std::complex<float>>();
  ExpectSizeOf<std::complex<double>>();
}

}  // namespace
}  // namespace callout::internal

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
