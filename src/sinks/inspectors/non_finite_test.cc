// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "core/frame/elements.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

template <typename T>
NonFinite CountOf(const std::vector<T>& values, NonFiniteChecks checks = {}) {
  TestBuffer buffer = TestBuffer::Of<T>({static_cast<int64_t>(values.size())}, values);
  return CountNonFinite(buffer.view(), checks);
}

template <typename T>
class NonFiniteTest : public ::testing::Test {
 protected:
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  static constexpr T kInf = std::numeric_limits<T>::infinity();
};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(NonFiniteTest, Floats);

TYPED_TEST(NonFiniteTest, FiniteValuesAreNeither) {
  using Limits = std::numeric_limits<TypeParam>;
  const NonFinite found = CountOf<TypeParam>({0, -0.0, 1, Limits::max(), Limits::lowest(), Limits::denorm_min()});
  EXPECT_EQ(found.nan + found.infinite, 0U);
  EXPECT_EQ(found.first, -1);
  EXPECT_EQ(CountOf<TypeParam>({}).first, -1);
}

TYPED_TEST(NonFiniteTest, BothAreCountedAndTheFirstIsFound) {
  const NonFinite found = CountOf<TypeParam>({1, -this->kInf, this->kNan, -this->kNan, this->kInf});
  EXPECT_EQ(found.nan, 2U);
  EXPECT_EQ(found.infinite, 2U);
  EXPECT_EQ(found.first, 1);
  EXPECT_FALSE(found.first_is_nan);
}

TYPED_TEST(NonFiniteTest, TheFirstIsOfWhatWasAskedFor) {
  const std::vector<TypeParam> values = {this->kInf, 1, this->kNan};
  EXPECT_EQ(CountOf(values, {.infinite = false}).first, 2);
  EXPECT_TRUE(CountOf(values, {.infinite = false}).first_is_nan);
  EXPECT_EQ(CountOf(values, {.nan = false}).first, 0);
  EXPECT_EQ(CountOf<TypeParam>({this->kInf}, {.infinite = false}).first, -1);
}

TYPED_TEST(NonFiniteTest, OneAmongManyIsFoundAtEveryPlace) {
  std::vector<TypeParam> values(10'000, 1);
  for (const size_t place : {0UL, 1UL, 4095UL, 4096UL, 8191UL, 9999UL}) {
    values[place] = this->kNan;
    const NonFinite found = CountOf(values);
    EXPECT_EQ(found.first, static_cast<int64_t>(place));
    EXPECT_EQ(found.nan, 1U);
    values[place] = 1;
  }
}

TYPED_TEST(NonFiniteTest, ComplexNumbersCountOnce) {
  using Complex = std::complex<TypeParam>;
  const NonFinite found = CountOf<Complex>(
      {Complex(1, 2), Complex(this->kNan, this->kInf), Complex(0, this->kInf), Complex(this->kNan, this->kNan)});
  EXPECT_EQ(found.nan, 2U);
  EXPECT_EQ(found.infinite, 1U);
  EXPECT_EQ(found.first, 1);
  const NonFinite both = CountOf<Complex>({Complex(this->kNan, this->kInf)}, {.nan = false});
  EXPECT_EQ(both.first, 0) << "it is infinite, too";
  EXPECT_FALSE(both.first_is_nan);
}

// Compares every bit pattern of the small formats with their decoder.
class SmallFormats : public ::testing::TestWithParam<DType> {};

TEST_P(SmallFormats, AgreeWithWhatTheirBitsMean) {
  const DType dtype = GetParam();
  const bool is_byte = BitWidth(dtype) == 8;
  for (uint32_t bits = 0; bits < (is_byte ? 256U : 65536U); ++bits) {
    std::vector<uint8_t> bytes = {static_cast<uint8_t>(bits)};
    if (!is_byte) bytes.push_back(static_cast<uint8_t>(bits >> 8));
    TestBuffer buffer(dtype, {}, bytes);
    const NonFinite found = CountNonFinite(buffer.view(), {});
    const float value = SmallFloatToFloat(RowOf(dtype).format, static_cast<uint16_t>(bits));
    ASSERT_EQ(found.nan, std::isnan(value) ? 1U : 0U) << bits;
    ASSERT_EQ(found.infinite, std::isinf(value) ? 1U : 0U) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(AllBits, SmallFormats,
                         ::testing::Values(DType::kFloat16, DType::kBfloat16, DType::kFloat8E5M2, DType::kFloat8E4M3,
                                           DType::kFloat8E3M4, DType::kFloat8E4M3Fn, DType::kFloat8E4M3B11Fnuz,
                                           DType::kFloat8E5M2Fnuz, DType::kFloat8E4M3Fnuz, DType::kFloat8E8M0Fnu));

TEST(NonFiniteOfOthersTest, IntegersHaveNone) {
  const NonFinite found = CountOf<int32_t>({0x7F800000, -1});
  EXPECT_EQ(found.nan + found.infinite, 0U);
}

}  // namespace
}  // namespace callout::internal
