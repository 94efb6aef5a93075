// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/encoding/json.h"
#include "sinks/text/formatted_array.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string Text(TestBuffer buffer, TextStyle style) {
  std::string out;
  EXPECT_TRUE(AppendArray(buffer.view(), style, out).ok());
  return out;
}
std::string AsJson(TestBuffer buffer) { return Text(std::move(buffer), TextStyle::kJson); }
std::string Print(TestBuffer buffer) { return Text(std::move(buffer), TextStyle::kPrint); }

TestBuffer Bytes(DType dtype, std::vector<int64_t> dims, std::vector<uint8_t> bytes) {
  return TestBuffer(dtype, std::move(dims), std::move(bytes));
}

TestBuffer Range(int64_t n) {
  std::vector<int32_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return TestBuffer::Of<int32_t>({n}, values);
}

TEST(TextTest, ScalarsAreBare) {
  EXPECT_EQ(AsJson(TestBuffer::Scalar(1.5F)), "1.5");
  EXPECT_EQ(Print(TestBuffer::Scalar(int64_t{-7})), "-7");
}

TEST(TextTest, ArraysAreNested) {
  const auto cube = TestBuffer::Of<int32_t>({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(AsJson(cube), "[[[1,2,3]],[[4,5,6]]]");
  EXPECT_EQ(Print(cube), "[[[1 2 3]] [[4 5 6]]]");
}

TEST(TextTest, EmptyArraysKeepTheirOuterShape) {
  EXPECT_EQ(AsJson(TestBuffer::Zeros(DType::kFloat32, {0})), "[]");
  EXPECT_EQ(AsJson(TestBuffer::Zeros(DType::kFloat32, {2, 0})), "[[],[]]");
  EXPECT_EQ(Print(TestBuffer::Zeros(DType::kInt4, {0, 3})), "[]");
}

TEST(TextTest, FloatsHaveTheFewestDigitsThatReadBack) {
  EXPECT_EQ(AsJson(TestBuffer::Scalar(0.1F)), "0.1");
  EXPECT_EQ(AsJson(TestBuffer::Scalar(0.1)), "0.1");
  EXPECT_EQ(AsJson(TestBuffer::Scalar(1.0 / 3)), "0.3333333333333333");
  EXPECT_EQ(AsJson(TestBuffer::Scalar(100000.0)), "1e+05");
  for (const double value : {1e300, -5e-324, 123456789.125, 2.0 / 3, -0.0}) {
    const auto read = ParseJson(AsJson(TestBuffer::Scalar(value)));
    ASSERT_TRUE(read.has_value()) << value;
    EXPECT_EQ(read->number, value);
  }
}

TEST(TextTest, NumbersThatJsonLacksAreStrings) {
  const auto values = TestBuffer::Of<float>({4}, {kNan, kInf, -kInf, 1});
  EXPECT_EQ(AsJson(values), R"(["NaN","Infinity","-Infinity",1])");
  EXPECT_EQ(Print(values), "[nan inf -inf 1]");
}

TEST(TextTest, BoolsAreWords) {
  EXPECT_EQ(AsJson(Bytes(DType::kBool, {2}, {1, 0})), "[true,false]");
  EXPECT_EQ(Print(Bytes(DType::kBool, {2}, {1, 0})), "[True False]");
}

TEST(TextTest, ComplexNumbers) {
  using C64 = std::complex<float>;
  const auto values = TestBuffer::Of<C64>({2}, {C64(1, 2.5F), C64(-1, -2)});
  EXPECT_EQ(AsJson(values), "[[1,2.5],[-1,-2]]");
  EXPECT_EQ(Print(values), "[1+2.5j -1-2j]");
  EXPECT_EQ(Print(TestBuffer::Scalar(std::complex<double>(0, -0.0))), "0-0j");
  EXPECT_EQ(Print(TestBuffer::Scalar(C64(kInf, kNan))), "inf+nanj");
  EXPECT_EQ(Print(TestBuffer::Scalar(C64(0, -kInf))), "0-infj");
  EXPECT_EQ(AsJson(TestBuffer::Scalar(C64(kNan, -kInf))), R"(["NaN","-Infinity"])");
}

TEST(TextTest, IntegersOfEveryWidth) {
  EXPECT_EQ(AsJson(TestBuffer::Of<int8_t>({2}, {-128, 127})), "[-128,127]");
  EXPECT_EQ(AsJson(TestBuffer::Of<uint8_t>({2}, {0, 255})), "[0,255]");
  EXPECT_EQ(AsJson(TestBuffer::Of<int16_t>({1}, {-32768})), "[-32768]");
  EXPECT_EQ(AsJson(TestBuffer::Of<uint16_t>({1}, {65535})), "[65535]");
  EXPECT_EQ(AsJson(TestBuffer::Of<int32_t>({1}, {INT32_MIN})), "[-2147483648]");
  EXPECT_EQ(AsJson(TestBuffer::Of<uint32_t>({1}, {UINT32_MAX})), "[4294967295]");
  EXPECT_EQ(AsJson(TestBuffer::Of<int64_t>({1}, {INT64_MIN})), "[-9223372036854775808]");
  EXPECT_EQ(AsJson(TestBuffer::Of<uint64_t>({1}, {UINT64_MAX})), "[18446744073709551615]");
}

TEST(TextTest, PackedIntegers) {
  EXPECT_EQ(AsJson(Bytes(DType::kInt4, {3}, {0x8f, 0x07})), "[-1,-8,7]");
  EXPECT_EQ(AsJson(Bytes(DType::kUint4, {3}, {0x8f, 0x07})), "[15,8,7]");
  EXPECT_EQ(AsJson(Bytes(DType::kInt2, {4}, {0b10'11'01'00})), "[0,1,-1,-2]");
  EXPECT_EQ(AsJson(Bytes(DType::kUint2, {4}, {0b10'11'01'00})), "[0,1,3,2]");
  EXPECT_EQ(AsJson(Bytes(DType::kInt1, {2}, {0b10})), "[0,-1]");
  EXPECT_EQ(AsJson(Bytes(DType::kUint1, {2}, {0b10})), "[0,1]");
  EXPECT_EQ(AsJson(Bytes(DType::kInt4, {2, 3}, {0x21, 0x43, 0x65})), "[[1,2,3],[4,5,6]]");
}

TEST(TextTest, SmallFloats) {
  EXPECT_EQ(AsJson(TestBuffer(DType::kFloat16, {2}, {0x00, 0x3c, 0x00, 0xc0})), "[1,-2]");
  EXPECT_EQ(AsJson(TestBuffer(DType::kBfloat16, {1}, {0x80, 0x3f})), "[1]");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E5M2, {2}, {0x3c, 0x7c})), R"([1,"Infinity"])");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E4M3, {1}, {0x77})), "[240]");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E3M4, {1}, {0x6f})), "[15.5]");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E4M3Fn, {2}, {0x7e, 0x7f})), R"([448,"NaN"])");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E4M3B11Fnuz, {1}, {0x7f})), "[30]");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E5M2Fnuz, {1}, {0x7f})), "[57344]");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E4M3Fnuz, {2}, {0x7f, 0x80})), R"([240,"NaN"])");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat8E8M0Fnu, {2}, {0x80, 0xff})), R"([2,"NaN"])");
  EXPECT_EQ(AsJson(Bytes(DType::kFloat4E2M1Fn, {3}, {0x71, 0x0f})), "[0.5,6,-6]");
}

TEST(TextTest, LongArraysAreCutInPrintOnly) {
  EXPECT_EQ(Print(Range(1001)), "[0 1 2 ... 998 999 1000]");
  EXPECT_EQ(Print(Range(1000)).find("..."), std::string::npos);
  const auto read = ParseJson(AsJson(Range(2000)));
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->items.size(), 2000U);
  EXPECT_EQ(read->items[1999].number, 1999);
}

TEST(TextTest, EachDimensionIsCutOnlyWhereItIsLong) {
  std::vector<int32_t> values(2 * 600);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(Print(TestBuffer::Of<int32_t>({2, 600}, values)),
            "[[0 1 2 ... 597 598 599] [600 601 602 ... 1197 1198 1199]]");
  EXPECT_EQ(Print(TestBuffer::Of<int32_t>({600, 2}, values)),
            "[[0 1] [2 3] [4 5] ... [1194 1195] [1196 1197] [1198 1199]]");
}

TEST(TextTest, JsonStringsAreEscaped) {
  for (const std::string& text :
       {std::string("plain"), std::string("quote \" and \\ slash"), std::string("a\nb\tc\r"),
        std::string("nul \0 inside", 12), std::string("\x01\x1f\x7f"), std::string("ünïcode")}) {
    std::string out;
    AppendJsonString(text, out);
    const auto read = ParseJson(out);
    ASSERT_TRUE(read.has_value()) << out;
    EXPECT_EQ(read->text, text);
  }
}

TEST(TextTest, UnknownElementTypesAreErrorsAndNoText) {
  for (const uint32_t number : {14U, kDTypeLimit, static_cast<uint32_t>(DType::kToken)}) {
    TestBuffer buffer(static_cast<DType>(number), {2}, {0x38, 0x40});
    std::string out = "x=";
    const auto is_refused = StatusIs(StatusCode::kInvalidArgument, "of element type " + std::to_string(number));
    for (const TextStyle style : {TextStyle::kJson, TextStyle::kPrint}) {
      EXPECT_THAT(AppendArray(buffer.view(), style, out), is_refused);
    }
    EXPECT_THAT(AppendPlainArray(buffer.view(), out), is_refused);
    EXPECT_THAT(AppendFormattedArray(buffer.view(), {}, out), is_refused);
    EXPECT_THAT(FormatKindOf(buffer.dtype()).status(), is_refused);
    EXPECT_EQ(out, "x=");
  }
}

}  // namespace
}  // namespace callout::internal
