// SPDX-License-Identifier: Apache-2.0
#include "core/base/ticks.h"

#include <gtest/gtest.h>

#include <chrono>

namespace callout::internal {
namespace {

TEST(TicksTest, NeverGoBack) {
  const uint64_t first = Ticks();
  EXPECT_GE(Ticks(), first);
  const int64_t start = SteadyNanoseconds();
  EXPECT_GE(SteadyNanoseconds(), start);
}

TEST(TicksTest, NanosecondsGrowWithTicks) {
  EXPECT_EQ(TicksToNanoseconds(0), 0.0);
  EXPECT_GT(TicksToNanoseconds(uint64_t{1} << 40), TicksToNanoseconds(uint64_t{1} << 20));
  EXPECT_GT(TicksToNanoseconds(uint64_t{1} << 20), 0.0);
}

// A monitoring system takes a counter that falls for one that was restarted.
TEST(TicksTest, NanosecondsOfTheSameTicksNeverFall) {
  double before = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double now = TicksToNanoseconds(uint64_t{1} << 50);
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(TicksTest, WallTimeOfAnEarlierTickIsEarlier) {
  const uint64_t now = Ticks();
  EXPECT_LT(WallSecondsAt(now - (uint64_t{1} << 36)), WallSecondsAt(now));
}

TEST(TicksTest, WallTimeIsTheSystemClocks) {
  const double system = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(WallSecondsAt(Ticks()), system, 60.0);  // checks the epoch and the unit, not the precision
}

}  // namespace
}  // namespace callout::internal
