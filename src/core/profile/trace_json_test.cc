// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trace_json.h"

#include <gtest/gtest.h>

#include <random>

#include "core/encoding/json.h"

namespace callout::internal {
namespace {

using Kind = ProfileKind;

// Returns a recording of two program threads and a delivery thread, with the labels "", "f", "g".
Recording Recorded(std::vector<ProfileEvent> events) {
  Recording recording;
  recording.events = std::move(events);
  recording.labels = {"", "f", "g"};
  recording.threads = {{1, "main", false}, {2, "pool", false}, {3, "callout-python0", true}};
  return recording;
}

ProfileEvent At(uint32_t thread, Kind kind, int64_t begin, int64_t end, uint32_t label = 1, int32_t device = 0) {
  return {.begin = begin, .end = end, .label = label, .device = device, .thread = thread, .kind = kind};
}

std::vector<std::string> Names(const Rows& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows.rows) names.push_back(row.name);
  return names;
}

TEST(RowsTest, GroupsStandInOrder) {
  Recording recording =
      Recorded({At(2, Kind::kDelivery, 50, 60), At(2, Kind::kFunction, 51, 59), At(0, Kind::kCall, 10, 20, 1, 1),
                At(0, Kind::kTap, 30, 40), At(0, Kind::kPhase, 0, 100, 2, -1), At(0, Kind::kCall, 70, 80, 1, -1)});
  const Rows rows = ArrangeRows(recording);
  EXPECT_EQ(Names(rows), (std::vector<std::string>{"phases", "no device", "device 0", "device 1",
                                                   "delivery thread callout-python0", "Python functions"}));
}

TEST(RowsTest, WhatOverlapsGetsARowOfItsOwn) {
  Recording recording = Recorded(
      {At(0, Kind::kCall, 0, 10), At(1, Kind::kCall, 5, 15), At(0, Kind::kCall, 10, 12), At(1, Kind::kCall, 20, 30)});
  const Rows rows = ArrangeRows(recording);
  EXPECT_EQ(Names(rows), (std::vector<std::string>{"device 0", "device 0 (2)"}));
  EXPECT_EQ(rows.of, (std::vector<uint32_t>{0, 1, 0, 0}));
}

TEST(RowsTest, WhatLiesInsideStaysThereAndHasItsLabel) {
  // Events are recorded at their end: inner ones first.
  Recording recording = Recorded({At(0, Kind::kGilWait, 1, 2, 0, -1), At(0, Kind::kFunction, 3, 8, 0, -1),
                                  At(0, Kind::kCopy, 8, 9, 0, -1), At(0, Kind::kCall, 1, 10, 2, 3)});
  const Rows rows = ArrangeRows(recording);
  EXPECT_EQ(recording.events[0].kind, Kind::kCall) << "parents come first, also of the same begin";
  for (const ProfileEvent& event : recording.events) {
    EXPECT_EQ(event.label, 2U);
    EXPECT_EQ(event.device, 3);
  }
  EXPECT_EQ(Names(rows), (std::vector<std::string>{"device 3", "Python functions"}));
  EXPECT_EQ(rows.of, (std::vector<uint32_t>{0, 0, 1, 0}));
}

TEST(RowsTest, ATapOfADeliveryThreadIsOfItsDevice) {
  Recording recording =
      Recorded({At(2, Kind::kTap, 2, 3, 2, 1), At(2, Kind::kRoomWait, 2, 3, 2, 1), At(2, Kind::kDelivery, 1, 5)});
  const Rows rows = ArrangeRows(recording);
  EXPECT_EQ(Names(rows), (std::vector<std::string>{"device 1", "delivery thread callout-python0"}));
}

TEST(RowsTest, AnInnerSpanThatEndsLaterIsCut) {
  Recording recording = Recorded({At(0, Kind::kCopy, 5, 11, 0), At(0, Kind::kCall, 0, 10)});
  (void)ArrangeRows(recording);
  EXPECT_EQ(recording.events[1].end, 10);
}

TEST(RowsTest, QueuesHaveNoRow) {
  Recording recording = Recorded({At(2, Kind::kQueue, 5, 5, 0)});
  const Rows rows = ArrangeRows(recording);
  EXPECT_TRUE(rows.rows.empty());
  EXPECT_EQ(rows.of[0], Rows::kNone);
}

TEST(RowsTest, SpansOfARowAreApartOrOneLiesInTheOther) {
  std::mt19937 random(7);
  std::vector<ProfileEvent> events;
  for (uint32_t thread = 0; thread < 2; ++thread) {
    int64_t now = 0;
    for (int i = 0; i < 500; ++i) {
      const int64_t begin = now + static_cast<int64_t>(random() % 5);
      const int64_t end = begin + static_cast<int64_t>(random() % 20);
      const auto device = static_cast<int32_t>(random() % 3);
      if (end - begin > 4) events.push_back(At(thread, Kind::kFunction, begin + 1, end - 1, 0));
      if (end - begin > 8) events.push_back(At(thread, Kind::kTap, begin + 2, end - 3, 2, device));
      events.push_back(At(thread, Kind::kCall, begin, end, 1, device));
      now = end;
    }
  }
  Recording recording = Recorded(events);
  const Rows rows = ArrangeRows(recording);
  std::vector<std::vector<int64_t>> open(rows.rows.size());
  for (size_t i = 0; i < recording.events.size(); ++i) {
    const ProfileEvent& event = recording.events[i];
    std::vector<int64_t>& ends = open[rows.of[i]];
    while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
    if (!ends.empty()) {
      ASSERT_LE(event.end, ends.back()) << i;
    }
    ends.push_back(event.end);
  }
}

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
