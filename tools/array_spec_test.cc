// SPDX-License-Identifier: Apache-2.0
#include "array_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <limits>
#include <tuple>

#include "callout/elements.h"
#include "element_text.h"
#include "testing/status_matchers.h"

namespace callout::tools {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;
using ::testing::SizeIs;

template <typename T>
std::vector<T> ValuesOf(const std::string& spec) {
  const auto array = ParseSpec(spec);
  EXPECT_THAT(array, IsOk()) << spec;
  if (!array.ok()) return {};
  std::vector<T> values(array->bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array->bytes.data(), array->bytes.size());
  return values;
}

TEST(ArraySpecTest, FillsListsAndTakesScalars) {
  EXPECT_THAT(ValuesOf<float>("f32[2,3]=0.5"), AllOf(SizeIs(6), Each(0.5F)));
  EXPECT_THAT(ValuesOf<float>("f32[3]=1,-2.5,3e2"), ElementsAre(1, -2.5F, 300));
  EXPECT_THAT(ValuesOf<double>("f64[]=nan"), ElementsAre(::testing::IsNan()));
  EXPECT_THAT(ValuesOf<float>("f32[2]=inf,-inf"),
              ElementsAre(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()));
  EXPECT_THAT(ValuesOf<int32_t>("i32[2]=+7,-8"), ElementsAre(7, -8));
  EXPECT_THAT(ValuesOf<uint64_t>("u64[]=18446744073709551615"), ElementsAre(UINT64_MAX));
  EXPECT_THAT(ValuesOf<uint8_t>("bool[4]=1,0,true,False"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(ValuesOf<std::complex<float>>("c64[4]=1,2j,1+2j,-1e-1-3e+1j"),
              ElementsAre(std::complex<float>(1), std::complex<float>(0, 2), std::complex<float>(1, 2),
                          std::complex<float>(-0.1F, -30)));
  EXPECT_THAT(ValuesOf<float>("f32[0,3]="), SizeIs(0));
  EXPECT_THAT(ValuesOf<float>("f32[1]=4"), ElementsAre(4));
}

TEST(ArraySpecTest, ElementsOfLessThanAByteHaveOneEach) {
  EXPECT_THAT(ValuesOf<uint8_t>("s4[3]=-8,7,-1"), ElementsAre(8, 7, 15));
  EXPECT_THAT(ParseSpec("s4[]=8"), StatusIs(StatusCode::kInvalidArgument, "'8' is no s4"));
  EXPECT_THAT(ParseSpec("u2[]=4"), StatusIs(StatusCode::kInvalidArgument, "'4' is no u2"));
}

TEST(ArraySpecTest, SmallFloatsAreRoundedToTheNearestAndEven) {
  EXPECT_THAT(ValuesOf<uint16_t>("bf16[3]=1,1.00390625,-2"), ElementsAre(0x3F80, 0x3F80, 0xC000));
  EXPECT_THAT(ValuesOf<uint16_t>("f16[5]=1,65504,65520,1e-8,-1e-8"), ElementsAre(0x3C00, 0x7BFF, 0x7C00, 0, 0x8000));
  for (const char* type : {"f16", "bf16", "f8e4m3fn", "f8e5m2"}) {
    const DType dtype = ParseDType(type);
    const size_t size = ElementSize(dtype);
    for (const uint32_t bits : {0x00U, 0x01U, 0x3AU, 0x55U}) {
      const float value = SmallFloatToFloat(dtype, static_cast<uint16_t>(bits));
      std::byte stored[2] = {};
      char text[64];
      std::snprintf(text, sizeof(text), "%.17g", static_cast<double>(value));
      ASSERT_THAT(StoreText(text, dtype, stored), IsOk());
      uint16_t back = 0;
      std::memcpy(&back, stored, size);
      EXPECT_EQ(back, bits) << type;
    }
  }
}

TEST(ArraySpecTest, RandomNumbersAreThoseOfTheirSeed) {
  const std::vector<float> values = ValuesOf<float>("f32[100]=random:7");
  EXPECT_THAT(values, AllOf(SizeIs(100), Each(AllOf(Ge(0), Lt(1)))));
  EXPECT_EQ(values, ValuesOf<float>("f32[100]=random:7"));
  EXPECT_NE(values, ValuesOf<float>("f32[100]=random:8"));
  EXPECT_THAT(ValuesOf<int32_t>("s32[100]=random:7"), Each(AllOf(Ge(0), Lt(100))));
  EXPECT_THAT(ValuesOf<int8_t>("s8[100]=random:7"), Each(AllOf(Ge(0), Lt(100))));
  EXPECT_THAT(ValuesOf<uint8_t>("u4[100]=random:7"), Each(Lt(16)));
}

TEST(ArraySpecTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"f32[2]", "it has no '='"},
      {"f33[2]=1", "unknown element type 'f33'"},
      {"f32[2=1", "expected f32[2,3]"},
      {"f32[2,]=1", "its dimensions are no numbers"},
      {"f32[-2]=1", "its dimensions are no numbers"},
      {"f32[2x3]=1", "its dimensions are no numbers"},
      {"f32[2]=1,2,3", "2 elements, but 3 values"},
      {"f32[2]=1,x", "'x' is no f32"},
      {"f32[2]=", "it has no values"},
      {"f32[2]=random:", "its seed is no number"},
      {"f32[2]=random:1.5", "its seed is no number"},
      {"s32[]=1.5", "'1.5' is no s32"},
      {"s8[]=128", "'128' is no s8"},
      {"u8[]=-1", "'-1' is no u8"},
      {"bool[]=2", "'2' is no bool"},
      {"c64[]=1+j2", "'1+j2' is no c64"},
      {"f32[99999999999,99999999999]=0", "an array cannot be"},
  };
  for (const auto& [spec, reason] : cases) {
    EXPECT_THAT(ParseSpec(spec), StatusIs(StatusCode::kInvalidArgument, reason)) << spec;
  }
}

// NumPy and ml_dtypes round in this way: infinity begins halfway to the next value.
TEST(ArraySpecTest, SmallFloatsRoundToTheirLargestOrInfinity) {
  const std::vector<std::tuple<std::string, std::string, uint32_t>> cases = {
      {"f16", "65505", 0x7BFF},   {"f16", "65519.9", 0x7BFF}, {"f16", "65520", 0x7C00},  {"f16", "-65505", 0xFBFF},
      {"f16", "-65520", 0xFC00},  {"f16", "inf", 0x7C00},     {"f16", "1e30", 0x7C00},   {"bf16", "3.39e38", 0x7F7F},
      {"bf16", "3.4e38", 0x7F80}, {"f8e5m2", "57345", 0x7B},  {"f8e5m2", "61440", 0x7C}, {"f8e5m2", "-inf", 0xFC},
  };
  for (const auto& [dtype, number, bits] : cases) {
    const auto array = ParseSpec(dtype + "[]=" + number);
    ASSERT_THAT(array, IsOk());
    uint32_t found = 0;
    std::memcpy(&found, array->bytes.data(), array->bytes.size());
    EXPECT_EQ(found, bits) << dtype << " " << number;
  }
}

TEST(ArraySpecTest, ASignIsOne) {
  EXPECT_THAT(ParseSpec("f32[]=+-1"), StatusIs(StatusCode::kInvalidArgument, "'+-1' is no f32"));
  EXPECT_THAT(ParseSpec("f32[]=+1"), IsOk());
}

TEST(ArraySpecTest, FourBitsHaveNoNan) {
  EXPECT_THAT(ParseSpec("f4e2m1fn[]=nan"), StatusIs(StatusCode::kInvalidArgument, "'nan' is no f4e2m1fn"));
}

TEST(ArraySpecTest, IsToldFromAPath) {
  EXPECT_TRUE(LooksLikeSpec("f32[2]=1"));
  EXPECT_TRUE(LooksLikeSpec("nonsense[]=1"));
  EXPECT_FALSE(LooksLikeSpec("x.npy"));
  EXPECT_FALSE(LooksLikeSpec("folder/f32[2]=1.npy"));
}

}  // namespace
}  // namespace callout::tools
