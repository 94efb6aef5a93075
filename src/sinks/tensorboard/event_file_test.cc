// SPDX-License-Identifier: Apache-2.0
//
// Tests of the encoded bytes. tests/python/sinks/test_tensorboard.py tests that TensorBoard reads them.
#include "sinks/tensorboard/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/encoding/checksums.h"
#include "core/encoding/utf8.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> BucketsOf(TestBuffer values) {
  const auto data = SummaryDataOf(values.view(), ShownAs::kHistogram);
  EXPECT_THAT(data, IsOk());
  const auto tensor = WireReader(*data).Next();
  EXPECT_EQ(tensor->number, 8);
  WireReader reader(tensor->bytes);
  while (const auto field = reader.Next()) {
    if (field->number != 4) continue;
    std::vector<double> buckets(field->bytes.size() / sizeof(double));
    std::memcpy(buckets.data(), field->bytes.data(), field->bytes.size());
    return buckets;
  }
  return {};
}

double Counted(const std::vector<double>& buckets) {
  double count = 0;
  for (size_t i = 2; i < buckets.size(); i += 3) count += buckets[i];
  return count;
}

TEST(EventFileTest, AHistogramCountsEveryFiniteNumberOnce) {
  const double max = std::numeric_limits<double>::max(), tiny = std::numeric_limits<double>::denorm_min();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& values :
       {std::vector<double>{-max, 0, max}, {0, tiny, 2 * tiny}, {1, 1 + 1e-16, 1 + 3e-16}, {-0.0, 0, 0}, {3, 3, 3}}) {
    std::vector<double> more = values;
    more.insert(more.end(), {std::nan(""), infinity, -infinity});
    const auto buckets = BucketsOf(TestBuffer::Of<double>({static_cast<int64_t>(more.size())}, more));
    ASSERT_EQ(buckets.size(), 90U);
    EXPECT_EQ(Counted(buckets), 3);
    EXPECT_EQ(buckets[0], values.front());
    EXPECT_EQ(buckets[88], values.back());
    for (const double number : buckets) EXPECT_TRUE(std::isfinite(number));
  }
}

TEST(EventFileTest, AHistogramOfMoreThanIsConvertedAtOnce) {
  std::vector<int16_t> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int16_t>(i % 300);
  const auto buckets = BucketsOf(TestBuffer::Of<int16_t>({3000}, values));
  EXPECT_EQ(Counted(buckets), 3000);
  EXPECT_EQ(buckets[2], 100) << "0 to 9, ten times each";
}

TEST(EventFileTest, ValuesOfEveryRealTypeAreRead) {
  int types = 0;
  for (uint32_t number = 1; number < kDTypeLimit; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (BitWidth(dtype) == 0) continue;
    TestBuffer buffer = TestBuffer::Zeros(dtype, {5});
    const bool is_complex = dtype == DType::kComplex64 || dtype == DType::kComplex128;
    EXPECT_EQ(HasRealElements(buffer.view()), !is_complex);
    if (is_complex) continue;
    ++types;
    size_t count = 0;
    ForEachValue(buffer.view(), [&](std::span<const double> values) { count += values.size(); });
    EXPECT_EQ(count, 5U) << ShortName(dtype);
    if (dtype == DType::kFloat8E8M0Fnu) continue;  // The type has no zero.
    EXPECT_EQ(FirstValue(buffer.view()), 0) << ShortName(dtype);
  }
  EXPECT_GT(types, 25);
  EXPECT_EQ(FirstValue(TestBuffer(DType::kInt4, {2}, {0x7F}).view()), -1);
}

TEST(EventFileTest, APngHasSizesAndChecksums) {
  const std::string png = PngOf(300, 200, 3, std::string(300 * 200 * 3, '\x55'));
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
  std::vector<std::string> types;
  size_t at = 8;
  while (at < png.size()) {
    const auto big = [&](size_t from) {
      uint32_t number = 0;
      for (size_t i = 0; i < 4; ++i) number = number << 8U | static_cast<uint8_t>(png.at(from + i));
      return number;
    };
    const uint32_t size = big(at);
    const std::string type_and_data = png.substr(at + 4, size + 4);
    EXPECT_EQ(big(at + 8 + size), Crc32(type_and_data));
    types.push_back(type_and_data.substr(0, 4));
    at += size + 12;
  }
  EXPECT_THAT(types, ElementsAre("IHDR", "IDAT", "IEND"));
  EXPECT_GT(png.size(), 300U * 200 * 3) << "in blocks of 65535 bytes";
}

TEST(EventFileTest, WhatCannotBeShownIsNamed) {
  const auto status = [](TestBuffer buffer, ShownAs kind) { return SummaryDataOf(buffer.view(), kind).status(); };
  EXPECT_THAT(status(TestBuffer::Zeros(DType::kFloat32, {0, 3}), ShownAs::kImage),
              StatusIs(StatusCode::kInvalidArgument, "got f32[0,3]"));
  EXPECT_THAT(
      status(TestBuffer::Zeros(DType::kInt32, {2, 3}), ShownAs::kImage),
      StatusIs(StatusCode::kInvalidArgument, "expected an image of uint8, bool or floats from 0 to 1, got s32"));
  EXPECT_THAT(status(TestBuffer::Zeros(DType::kUint8, {}), ShownAs::kText),
              StatusIs(StatusCode::kInvalidArgument, "got u8[]"));
  EXPECT_THAT(status(TestBuffer::Zeros(DType::kFloat32, {0}), ShownAs::kScalar),
              StatusIs(StatusCode::kInvalidArgument, "expected a scalar, got f32[0]"));
  EXPECT_THAT(status(TestBuffer::Zeros(DType::kUint8, {0}), ShownAs::kText), IsOk());
}

TEST(EventFileTest, AScalarIsASimpleValueWithoutMetadata) {
  const auto data = SummaryDataOf(TestBuffer::Of<double>({1, 1}, std::vector<double>{0.1}).view(), ShownAs::kScalar);
  ASSERT_THAT(data, IsOk());
  WireWriter value, summary;
  AddValue(ValueHead("loss", ShownAs::kScalar), *data, value, summary);
  EXPECT_EQ(value.bytes(), std::string("\x0a\x04loss\x15\xcd\xcc\xcc\x3d"));
}

TEST(EventFileTest, TagsAreValidUtf8) {
  EXPECT_THAT(ValueHead("lo\xffss", ShownAs::kScalar), HasSubstr("lo\xEF\xBF\xBDss"));
}

TEST(Utf8Test, ReplacesWhatIsNone) {
  const std::string bad = "\xEF\xBF\xBD";
  for (const std::string good :
       {"", "a", "\x7f", "\u00e9", "\u20ac", "\U0001F600", "\U0010FFFF", "\uFFFD", "a\u07ffb"}) {
    EXPECT_EQ(ValidUtf8(good), good);
  }
  EXPECT_EQ(ValidUtf8("\x80"), bad);
  EXPECT_EQ(ValidUtf8("\xC0\xAF"), bad + bad) << "overlong";
  EXPECT_EQ(ValidUtf8("\xE0\x9F\xBF"), bad + bad + bad) << "overlong";
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), bad + bad + bad + bad) << "above U+10FFFF";
  EXPECT_EQ(ValidUtf8("\xE2\x82"), bad + bad) << "cut off";
  EXPECT_EQ(ValidUtf8("a\xE2\x82z"), "a" + bad + bad + "z");
}

}  // namespace
}  // namespace callout::internal
