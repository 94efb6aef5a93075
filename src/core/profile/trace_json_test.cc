// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trace_json.h"

#include <gtest/gtest.h>

#include "core/encoding/json.h"

namespace callout::internal {
namespace {

using Kind = ProfileKind;

Recording TapAndDelivery() {
  Recording recording;
  recording.labels = {"", "a \"name\"\n"};
  recording.threads = {{1, "main", false}, {2, "callout-python0", true}};
  recording.left_out = 7;
  recording.duration_ns = 9000;
  recording.events = {
      {.begin = 1500,
       .end = 2001,
       .queued = 1600,
       .flow = 42,
       .bytes = 8,
       .level = 136,
       .label = 1,
       .device = 0,
       .thread = 0,
       .kind = Kind::kTap},
      {.begin = 2500, .end = 2600, .bytes = 8, .label = 1, .device = 0, .thread = 0, .kind = Kind::kDrop},
      {.begin = 3000,
       .end = 4000,
       .queued = 1600,
       .flow = 42,
       .bytes = 8,
       .label = 1,
       .device = 0,
       .thread = 1,
       .kind = Kind::kDelivery,
       .failed = 1},
      {.begin = 5000, .end = 5000, .level = 0, .device = 0, .thread = 1, .kind = Kind::kQueue},
      {.begin = 6000,
       .end = 7000,
       .queued = 10,
       .flow = 43,
       .label = 1,
       .device = 0,
       .thread = 1,
       .kind = Kind::kDelivery},
  };
  return recording;
}

std::string File(Recording recording, TraceOptions options = {}) {
  const Rows rows = ArrangeRows(recording);
  return TraceFile(recording, rows, options);
}

size_t Count(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TraceJsonTest, IsJson) {
  EXPECT_TRUE(ParseJson(File(TapAndDelivery())).has_value());
  EXPECT_TRUE(ParseJson(File({})).has_value());
}

TEST(TraceJsonTest, SpansHaveTheirRowAndTime) {
  const std::string text = File(TapAndDelivery());
  EXPECT_EQ(Count(text, R"({"ph":"X","name":"a \"name\"\u000a","pid":1,"tid":1,"ts":1.500,"dur":0.501,"cat":"tap",)"
                        R"("args":{"device":0,"bytes":8}})"),
            1U)
      << text;
  EXPECT_EQ(Count(text, R"("ts":3.000,"dur":1.000,"cat":"delivery","args":{"device":0,"bytes":8,"failed":1,)"
                        R"("queued_ns":1400}})"),
            1U)
      << text;
  EXPECT_EQ(Count(text, R"("ph":"i","name":"drop a \"name\"\u000a","pid":1,"tid":1,"ts":2.500,"s":"t")"), 1U) << text;
  EXPECT_EQ(Count(text, R"("args":{"name":"device 0"})"), 1U);
  EXPECT_EQ(Count(text, R"("events_left_out":7)"), 1U);
}

TEST(TraceJsonTest, AnArrowNeedsBothEnds) {
  const std::string text = File(TapAndDelivery());
  EXPECT_EQ(Count(text, R"("ph":"s")"), 1U) << text;
  EXPECT_EQ(Count(text, R"({"ph":"f","name":"record","pid":1,"tid":2,"ts":3.000,"cat":"record","id":1,"bp":"e"})"), 1U)
      << text;
}

TEST(TraceJsonTest, QueuesAreCounters) {
  const std::string text = File(TapAndDelivery());
  EXPECT_EQ(
      Count(text, R"({"ph":"C","name":"python queue of device 0","pid":1,"tid":0,"ts":1.600,"args":{"bytes":136}})"),
      1U)
      << text;
  EXPECT_EQ(Count(text, R"("ts":5.000,"args":{"bytes":0}})"), 1U) << text;
}

TEST(TraceJsonTest, TimesMayBeShiftedBelowZero) {
  const std::string text = File(TapAndDelivery(), {.process = 12, .shift_ns = -2000});
  EXPECT_EQ(Count(text, R"("pid":12,"tid":1,"ts":-0.500)"), 2U) << text;  // the tap, and its arrow
}

}  // namespace
}  // namespace callout::internal
