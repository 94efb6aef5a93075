// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/file_sink.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/ticks.h"

namespace callout::internal {
namespace {

TEST(RecordClockTest, TellsTheTimeOfDay) {
  RecordClock clock;
  const uint64_t ticks = Ticks();
  EXPECT_NEAR(clock.SecondsAt(ticks), WallSecondsAt(ticks), 0.1);
  std::string text;
  clock.Append(ticks, text);
  EXPECT_EQ(text.size() - text.find('.'), 7U) << text;
  EXPECT_NEAR(std::atof(text.c_str()), WallSecondsAt(ticks), 0.1);
}

TEST(RecordClockTest, KeepsTheOrderOfRecordsOverMinutes) {
  RecordClock clock;
  const uint64_t begin = Ticks();
  double before = clock.SecondsAt(begin);
  for (uint64_t i = 1; i < 100'000; ++i) {
    const double now = clock.SecondsAt(begin + i * 2'000'000);  // About a millisecond each, mostly in the future.
    ASSERT_GE(now, before);
    before = now;
  }
  EXPECT_GT(before, clock.SecondsAt(begin) + 10);
}

TEST(RecordClockTest, ARecordOfAnotherDeviceMayBeOlder) {
  RecordClock clock;
  const uint64_t now = Ticks();
  const double later = clock.SecondsAt(now);
  const double earlier = clock.SecondsAt(now - 1'000'000);
  EXPECT_LT(earlier, later);
  EXPECT_GT(earlier, later - 1);
}

}  // namespace
}  // namespace callout::internal
