// SPDX-License-Identifier: Apache-2.0
#include "sinks/value_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <random>

#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using ValuePrintTest = LiveCountTest;

Status ParseStatus(std::string_view payload) { return ParseValuePrint(payload).status(); }

// Returns what a sink of `payload` writes for the buffers, on device 2.
std::string Written(std::string_view payload, std::vector<TestBuffer> buffers) {
  auto print = ParseValuePrint(payload);
  EXPECT_THAT(print, IsOk());
  if (!print.ok()) return "";
  std::FILE* file = std::tmpfile();
  const auto sink = MakeValuePrintSink("label", std::move(print).value(), fileno(file));
  std::vector<callout_buffer> views;
  for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
  std::vector<void*> blocks(views.size());
  const SiteInfo site = {"label", std::vector<std::string>(views.size())};
  const Record record = {.site = &site,
                         .buffers = views,
                         .blocks = blocks.data(),
                         .device_ordinal = 2,
                         .run_id = 5,
                         .sequence = 9,
                         .ticks = 0};
  EXPECT_THAT(sink->Deliver(record), IsOk());
  EXPECT_EQ(std::ftell(file), 0) << "written at the end of a batch";
  EXPECT_THAT(sink->Flush(), IsOk());
  std::string text(1 << 16, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST_F(ValuePrintTest, TheFieldsOfAPrint) {
  const auto print = ParseValuePrint("1;7;100000000;twhat:%20x%3b%0A,d,t%20z:%201;(,t(%20,l1,b2,l0,t%20),)");
  ASSERT_THAT(print, IsOk());
  EXPECT_EQ(print->threshold, 7);
  EXPECT_EQ(print->exponents_from, 100000000);
  EXPECT_EQ(print->head, "what: x;\n");
  EXPECT_TRUE(print->has_device);
  EXPECT_EQ(print->after_device, " z: 1");
  EXPECT_EQ(print->num_leaves, 2U);
  ASSERT_EQ(print->layout.size(), 7U);
  EXPECT_EQ(print->layout[1].text, "( ");
  EXPECT_EQ(print->layout[2].number, 1U);
  EXPECT_EQ(print->layout[3].number, 2U);
}

TEST_F(ValuePrintTest, WhatItWritesAroundTheValuesIsBounded) {
  std::string breaks, texts;
  for (int i = 0; i < 1000; ++i) breaks += ",b65536";
  for (int i = 0; i < 300'000; ++i) texts += ",t";
  EXPECT_THAT(ParseStatus("1;1000;1000000;;(" + breaks + ",)"),
              StatusIs(StatusCode::kInvalidArgument, "16777216 characters around the values"));
  EXPECT_THAT(ParseStatus("1;1000;1000000;;t" + texts),
              StatusIs(StatusCode::kInvalidArgument, "at most 262144 pieces"));
}

TEST_F(ValuePrintTest, WritesTheValue) {
  EXPECT_EQ(Written("1;1000;1000000;;l0", {TestBuffer::Of<float>({3}, {1, 2.5, 3})}), "[1.  2.5 3. ]\n");
  EXPECT_EQ(Written("1;1000;1000000;;(,t(%20,l1,b2,l0,t%20),)",
                    {TestBuffer::Scalar(1), TestBuffer::Of<int32_t>({2}, {2, 3})}),
            "( [2 3] 1 )\n");
  EXPECT_EQ(Written("1;1000;1000000;;tNone", {}), "None\n");
}

TEST_F(ValuePrintTest, WritesALineAboveTheValue) {
  EXPECT_EQ(Written("1;1000;1000000;twhat:%20w;l0", {TestBuffer::Scalar(1.0)}), "what: w\n1.\n");
  EXPECT_EQ(Written("1;1000;1000000;ta:%201%20device:%20,d,t%20w:%202;l0", {TestBuffer::Scalar(1.0)}),
            "a: 1 device: cpu:2 w: 2\n1.\n");
  EXPECT_EQ(Written("1;1000;1000000;d;tNone", {}), "cpu:2\nNone\n");
}

TEST_F(ValuePrintTest, SummarisesAboveTheThreshold) {
  EXPECT_EQ(Written("1;6;1000000;;l0", {TestBuffer::Of<float>({7}, {1, 2, 3, 4, 5, 6, 7})}),
            "[1. 2. 3. ... 5. 6. 7.]\n");
}

TEST_F(ValuePrintTest, ExponentsAsTheProgramsNumPy) {
  const auto write = [](std::string_view payload) { return Written(payload, {TestBuffer::Of<float>({1}, {5e6F})}); };
  EXPECT_EQ(write("1;1000;1000000;;l0"), "[5.e+06]\n");
  EXPECT_EQ(write("1;1000;100000000;;l0"), "[5000000.]\n");
}

TEST_F(ValuePrintTest, WritesWhatNumPyWouldHaveToFormatAsOtherSinksDo) {
  EXPECT_EQ(Written("1;1000;1000000;;l0", {TestBuffer(DType::kBfloat16, {2}, {0xC0, 0x3F, 0, 0x40})}), "[1.5 2]\n");
  EXPECT_EQ(Written("1;3;1000000;;l0", {TestBuffer::Zeros(DType::kComplex64, {2, 2})}), "[[0+0j 0+0j] [0+0j 0+0j]]\n");
}

TEST_F(ValuePrintTest, RefusesARecordWithOtherLeaves) {
  auto print = ParseValuePrint("1;1000;1000000;;l0");
  ASSERT_THAT(print, IsOk());
  const auto sink = MakeValuePrintSink("label", std::move(print).value(), -1);
  const SiteInfo site = {"label", {""}};
  const Record record = {
      .site = &site, .buffers = {}, .blocks = nullptr, .device_ordinal = 0, .run_id = 0, .sequence = 0, .ticks = 0};
  EXPECT_THAT(sink->Deliver(record), StatusIs(StatusCode::kInvalidArgument, "callout: an id_print of 1 arrays got 0"));
  EXPECT_THAT(sink->Flush(), IsOk());
}

TEST_F(ValuePrintTest, SaysWhichFormatItReads) {
  EXPECT_THAT(
      ParseStatus("2;l0"),
      StatusIs(StatusCode::kInvalidArgument,
               "callout: cannot read the id_print that a program carries: expected format 1, which is what this "
               "version of Callout reads, got '2;l0'"));
  EXPECT_THAT(ParseStatus(""), StatusIs(StatusCode::kInvalidArgument, "expected format 1"));
}

TEST_F(ValuePrintTest, RefusesMalformedPayloads) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"1", "5 fields"},
      {"1;1000;1000000;l0", "5 fields"},
      {"1;1000;1000000;;l0;", "5 fields"},
      {"1;;1000000;;l0", "a number from -1"},
      {"1;-2;1000000;;l0", "a number from -1"},
      {"1;9223372036854775808;1000000;;l0", "a number from -1"},
      {"1;1000;0;;l0", "a number from 1"},
      {"1;1000;1e6;;l0", "a number from 1"},
      {"1;1000;1000000;x;l0", "got 'x'"},
      {"1;1000;1000000;d,d;l0", "'d' once"},
      {"1;1000;1000000;ta,;l0", "got ''"},
      {"1;1000;1000000;t%4;l0", "two hexadecimal digits"},
      {"1;1000;1000000;t%;l0", "two hexadecimal digits"},
      {"1;1000;1000000;t%-1;l0", "two hexadecimal digits"},
      {"1;1000;1000000;ta b;l0", "printable ASCII"},
      {"1;1000;1000000;t\xC3\xA4;l0", "printable ASCII"},
      {"1;1000;1000000;;l", "a number from 0"},
      {"1;1000;1000000;;l1", "the leaves 0 to 0"},
      {"1;1000;1000000;;l0,l0", "the leaves 0 to 1"},
      {"1;1000;1000000;;l18446744073709551615", "a number from 0"},
      {"1;1000;1000000;;b99999999999", "a number from 0"},
      {"1;1000;1000000;;(", "a ')' for each"},
      {"1;1000;1000000;;),(", "a '(' for each"},
      {"1;1000;1000000;;l0,", "got ''"},
      {"1;1000;1000000;;(x", "got '(x'"},
  };
  for (const auto& [payload, text] : cases) {
    EXPECT_THAT(ParseStatus(payload), StatusIs(StatusCode::kInvalidArgument, text)) << payload;
  }
}

TEST_F(ValuePrintTest, RefusesGroupsWithoutEnd) {
  std::string deep = "1;1000;1000000;;(";
  for (int i = 0; i < 2000; ++i) deep += ",(";
  EXPECT_THAT(ParseStatus(deep), StatusIs(StatusCode::kInvalidArgument, "at most 1024 groups"));
}

// Parsing a payload with one changed byte either succeeds or gives a reason.
TEST_F(ValuePrintTest, SurvivesChangedBytes) {
  const std::string payload = "1;1000;1000000;twhat:%20x,d,t%20z;(,t(%20,l1,b2,l0,t%20),)";
  std::minstd_rand random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = payload;
    changed[random() % changed.size()] = static_cast<char>(random());
    if (i % 3 == 0) changed.resize(random() % changed.size());
    const auto print = ParseValuePrint(changed);
    if (print.ok()) {
      (void)LayOut(print->layout, std::vector<std::string>(print->num_leaves, "x"));
    } else {
      ++refused;
      ASSERT_THAT(print.status(), StatusIs(StatusCode::kInvalidArgument, "callout: cannot read the id_print"));
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace callout::internal
