// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "callout/dtype.h"
#include "callout/text.h"
#include "testing/status_matchers.h"

namespace callout {
namespace {

using internal::IsOkAndHolds;
using internal::StatusIs;

template <typename T>
callout_buffer View(const std::vector<T>& values, const std::vector<int64_t>& dims, DType dtype) {
  callout_buffer buffer = {};
  buffer.dtype = static_cast<uint32_t>(dtype);
  buffer.rank = static_cast<uint32_t>(dims.size());
  buffer.data = const_cast<T*>(values.data());
  buffer.dims = dims.data();
  buffer.size_bytes = values.size() * sizeof(T);
  return buffer;
}

std::string Json(const callout_buffer& buffer) {
  std::string text = "x = ";
  const Status status = AppendJson(buffer, text);
  return status.ok() ? text : std::string(status.message());
}

TEST(ArrayTextTest, ArraysAreAsNumpyPrintsThem) {
  EXPECT_THAT(ArrayText(View<float>({1, 2.5, -3, 1e-9F}, {2, 2}, DType::kFloat32)),
              IsOkAndHolds("[[ 1.0e+00  2.5e+00]\n [-3.0e+00  1.0e-09]]"));
  EXPECT_THAT(ArrayText(View<int32_t>({1, 20}, {2}, DType::kInt32)), IsOkAndHolds("[ 1 20]"));
}

TEST(ArrayTextTest, ScalarsHaveAllDigits) {
  const auto scalar = [](double value) { return ArrayText(View<double>({value}, {}, DType::kFloat64)); };
  EXPECT_THAT(scalar(2), IsOkAndHolds("2.0"));
  EXPECT_THAT(scalar(-0.1), IsOkAndHolds("-0.1"));
  EXPECT_THAT(scalar(1234567.5), IsOkAndHolds("1234567.5"));
  EXPECT_THAT(scalar(1e-5), IsOkAndHolds("1e-05"));
  EXPECT_THAT(scalar(-std::numeric_limits<double>::infinity()), IsOkAndHolds("-inf"));
  EXPECT_THAT(ArrayText(View<float>({1e6F}, {}, DType::kFloat32)), IsOkAndHolds("1e+06"));
}

// NumPy 2.3 prints these texts. float32(1e-4) is less than 1e-4.
TEST(ArrayTextTest, ScalarsHaveExponentsWhereNumpyWritesThem) {
  const auto scalar = [](double value) { return ArrayText(View<double>({value}, {}, DType::kFloat64)); };
  const auto single = [](float value) { return ArrayText(View<float>({value}, {}, DType::kFloat32)); };
  EXPECT_THAT(scalar(1e-4), IsOkAndHolds("0.0001"));
  EXPECT_THAT(single(1e-4F), IsOkAndHolds("1e-04"));
  EXPECT_THAT(single(0.00025F), IsOkAndHolds("0.00025"));
  EXPECT_THAT(scalar(9.999e15), IsOkAndHolds("9999000000000000.0"));
  EXPECT_THAT(scalar(1.25e16), IsOkAndHolds("1.25e+16"));
  EXPECT_THAT(scalar(1e-310), IsOkAndHolds("1e-310"));
  EXPECT_THAT(single(999999.94F), IsOkAndHolds("999999.94"));
  EXPECT_THAT(scalar(-0.0), IsOkAndHolds("-0.0"));
  EXPECT_THAT(single(0), IsOkAndHolds("0.0"));
}

TEST(ArrayTextTest, ElementsThatNumpyLacksHaveTextToo) {
  EXPECT_THAT(ArrayText(View<uint8_t>({0xF1}, {2}, DType::kInt4)), IsOkAndHolds("[1 -1]"));
  EXPECT_THAT(ArrayText(View<uint16_t>({0x3FC0}, {1}, DType::kBfloat16)), IsOkAndHolds("[1.5]"));
}

TEST(ArrayTextTest, JsonHasWhatJsonHasNoNumbersFor) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Json(View<double>({0.1, nan, 1e300, -std::numeric_limits<double>::infinity()}, {2, 2}, DType::kFloat64)),
            "x = [[0.1,\"NaN\"],[1e+300,\"-Infinity\"]]");
  EXPECT_EQ(Json(View<uint8_t>({1, 0}, {2}, DType::kBool)), "x = [true,false]");
}

TEST(ArrayTextTest, JsonOfTextAndNumbersIsAppended) {
  std::string text = "{";
  AppendJson("a\"\n\xff", text);
  text += ":";
  AppendJson(0.1, text);
  EXPECT_EQ(text, "{\"a\\\"\\u000a\\ufffd\":0.1");
}

TEST(ArrayTextTest, TokensHaveNoText) {
  const callout_buffer token = View<uint8_t>({}, {}, DType::kToken);
  EXPECT_THAT(ArrayText(token).status(), StatusIs(StatusCode::kInvalidArgument, "token"));
  std::string text = "kept";
  EXPECT_THAT(AppendJson(token, text), StatusIs(StatusCode::kInvalidArgument, "token"));
  EXPECT_EQ(text, "kept");
}

}  // namespace
}  // namespace callout
