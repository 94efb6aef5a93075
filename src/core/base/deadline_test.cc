// SPDX-License-Identifier: Apache-2.0
#include "core/base/ticks.h"

#include <gtest/gtest.h>

#include <limits>

namespace callout::internal {
namespace {

using Clock = std::chrono::steady_clock;

TEST(DeadlineTest, SecondsCountFromNow) {
  const auto before = Clock::now();
  const auto deadline = DeadlineAfter(2.5);
  EXPECT_GE(deadline - before, std::chrono::milliseconds(2500));
  EXPECT_LE(deadline - Clock::now(), std::chrono::milliseconds(2500));
}

TEST(DeadlineTest, ZeroIsOver) {
  const auto deadline = DeadlineAfter(0);
  EXPECT_LE(deadline, Clock::now());
}

TEST(DeadlineTest, MoreThanTheClockCountsIsForEver) {
  for (const double seconds : {1e10, 1e30, std::numeric_limits<double>::max(), std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    EXPECT_EQ(DeadlineAfter(seconds), Clock::time_point::max()) << seconds;
  }
}

}  // namespace
}  // namespace callout::internal
