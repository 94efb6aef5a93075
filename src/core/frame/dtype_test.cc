// SPDX-License-Identifier: Apache-2.0
#include "callout/dtype.h"

#include <gtest/gtest.h>

#include <map>

#include "core/frame/ffi_abi.h"

namespace callout::internal {
namespace {

struct Expected {
  int bits;
  std::string_view short_name;
  std::string_view numpy_name;
};

// Keyed by XLA's own enumerators, so that a DType with a wrong number shows.
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
