// SPDX-License-Identifier: Apache-2.0
//
// Tests of format strings. tests/python/sinks/test_print.py compares many with Python's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/base/ticks.h"
#include "sinks/record_format.h"
#include "sinks/text/format_string.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

template <typename T>
std::string Formatted(T value, std::string_view text) {
  const auto spec = ParseFormatSpec(text);
  EXPECT_THAT(spec, IsOk()) << text;
  std::string out;
  AppendFormatted(value, spec.value(), out);
  return out;
}

TEST(FormatSpecTest, Integers) {
  EXPECT_EQ(Formatted(int64_t{-42}, "06d"), "-00042");
  EXPECT_EQ(Formatted(int64_t{1234567}, ","), "1,234,567");
  EXPECT_EQ(Formatted(int64_t{1234}, "010,"), "00,001,234");
  EXPECT_EQ(Formatted(uint64_t{255}, "#010x"), "0x000000ff");
  EXPECT_EQ(Formatted(uint64_t{255}, "_b"), "1111_1111");
  EXPECT_EQ(Formatted(std::numeric_limits<int64_t>::min(), "d"), "-9223372036854775808");
  EXPECT_EQ(Formatted(int64_t{0x20AC}, "c"), "€");
  EXPECT_EQ(Formatted(int64_t{-1}, "c"), "\xEF\xBF\xBD");
  EXPECT_EQ(Formatted(int64_t{3}, ".1%"), "300.0%");
}

TEST(FormatSpecTest, Floats) {
  EXPECT_EQ(Formatted(3.14159, ".2f"), "3.14");
  EXPECT_EQ(Formatted(0.123, ".1%"), "12.3%");
  EXPECT_EQ(Formatted(1e6, ""), "1000000.0");
  EXPECT_EQ(Formatted(1e16, ""), "1e+16");
  EXPECT_EQ(Formatted(1234.5, "*^12,.1f"), "**1,234.5***");
  EXPECT_EQ(Formatted(-0.0001, "z.1f"), "0.0");
  EXPECT_EQ(Formatted(-std::numeric_limits<double>::infinity(), "08F"), "-0000INF");
  EXPECT_EQ(Formatted(1.0, "#.0e"), "1.e+00");
  EXPECT_EQ(Formatted(1e308, ".4096f").size(), 309U + 1 + 4096);
}

TEST(FormatSpecTest, OthersAreRefused) {
  EXPECT_THAT(ParseFormatSpec("5000"), StatusIs(StatusCode::kInvalidArgument, "at most 4096"));
  EXPECT_THAT(ParseFormatSpec("99999999999999999999"), StatusIs(StatusCode::kInvalidArgument, "at most 4096"));
  EXPECT_THAT(ParseFormatSpec(".-3f"), StatusIs(StatusCode::kInvalidArgument, "missing precision"));
  EXPECT_THAT(CheckFormatSpec(ParseFormatSpec("d").value(), FormatKind::kFloat),
              StatusIs(StatusCode::kInvalidArgument, "Unknown format code 'd' for object of type 'float'"));
}

Record RecordOf(const SiteInfo& site, std::span<const callout_buffer> buffers) {
  return {.site = &site,
          .buffers = buffers,
          .blocks = nullptr,
          .device_ordinal = 2,
          .run_id = 5,
          .sequence = 9,
          .ticks = Ticks()};
}

TEST(RecordFormatTest, FieldsOfLeavesAndOfTheRecord) {
  auto format = RecordFormat::Parse("{name} {step:03d} {a.b:.1f}{x} {device}/{run}/{seq}");
  ASSERT_THAT(format, IsOk());
  const SiteInfo site = {"tap", {"a.b", "x"}};
  TestBuffer first = TestBuffer::Scalar(2.25F), second = TestBuffer::Of<int32_t>({2}, {1, 20});
  const std::vector<callout_buffer> views = {first.view(), second.view()};
  for (const char* expected : {"tap 000 2.2[ 1 20] 2/5/9", "tap 001 2.2[ 1 20] 2/5/9"}) {
    std::string text;
    EXPECT_THAT(format->Append(RecordOf(site, views), kNoColours, text), IsOk());
    EXPECT_EQ(text, expected);
  }
  std::string coloured;
  EXPECT_THAT(format->Append(RecordOf(site, views), kTerminalColours, coloured), IsOk());
  EXPECT_THAT(coloured, ::testing::StartsWith("\x1b[1mtap\x1b[0m \x1b[36m002\x1b[0m "));
}

// One sink may serve several taps.
TEST(RecordFormatTest, EveryRecordIsLookedAt) {
  auto format = RecordFormat::Parse("{x:d}");
  ASSERT_THAT(format, IsOk());
  TestBuffer whole = TestBuffer::Scalar(7), real = TestBuffer::Scalar(0.5F);
  const std::vector<callout_buffer> wholes = {whole.view()}, reals = {real.view()};
  const SiteInfo has = {"a", {"x"}}, has_not = {"b", {"y"}};
  std::string text;
  EXPECT_THAT(format->Append(RecordOf(has_not, wholes), kNoColours, text),
              StatusIs(StatusCode::kInvalidArgument, "at character 0: there is no 'x'; the value's leaves are 'y'"));
  EXPECT_THAT(format->Append(RecordOf(has, reals), kNoColours, text),
              StatusIs(StatusCode::kInvalidArgument, "Unknown format code 'd' for object of type 'float' ({x})"));
  EXPECT_EQ(text, "");
  EXPECT_THAT(format->Append(RecordOf(has, wholes), kNoColours, text), IsOk());
  EXPECT_EQ(text, "7");
  // A value without arrays has one name and no buffer.
  EXPECT_THAT(format->Append(RecordOf({"c", {""}}, {}), kNoColours, text),
              StatusIs(StatusCode::kInvalidArgument, "there is no 'x'"));
}

// Parsing a format with one changed byte either succeeds or gives a reason.
TEST(RecordFormatTest, SurvivesChangedBytes) {
  const std::string whole = "a {x:*^+#012,.3f} {} {{}} {y[z]!s:>4} {time:%H} {step:_b}";
  const SiteInfo site = {"tap", {"x", "y.z"}};
  TestBuffer first = TestBuffer::Scalar(2.25), second = TestBuffer::Of<int32_t>({2}, {1, 20});
  const std::vector<callout_buffer> views = {first.view(), second.view()};
  std::minstd_rand random(5);
  int printed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = whole;
    changed[random() % changed.size()] = static_cast<char>(random());
    if (i % 3 == 0) changed[random() % changed.size()] = whole[random() % whole.size()];
    auto format = RecordFormat::Parse(changed);
    std::string text;
    if (format.ok() && format->Append(RecordOf(site, views), kNoColours, text).ok()) ++printed;
  }
  EXPECT_GT(printed, 1000);
  EXPECT_LT(printed, 19000);
}

}  // namespace
}  // namespace callout::internal
