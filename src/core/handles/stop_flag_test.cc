// SPDX-License-Identifier: Apache-2.0
#include "core/handles/stop_flag.h"

#include <gtest/gtest.h>

#include "testing/live_counts.h"
#include "testing/spin.h"

namespace callout::internal {
namespace {

using StopFlagTest = LiveCountTest;

bool Reads(const StopFlag& flag) { return (*flag.Read())[0].data[0] != std::byte{0}; }

TEST_F(StopFlagTest, IsSetUntilItIsCleared) {
  StopFlag flag;
  EXPECT_FALSE(flag.IsSet());
  EXPECT_FALSE(Reads(flag));
  flag.Set();
  EXPECT_TRUE(flag.IsSet());
  EXPECT_TRUE(Reads(flag));
  EXPECT_FALSE(flag.SetIfUnset());
  flag.Clear();
  EXPECT_FALSE(flag.IsSet());
  EXPECT_TRUE(flag.SetIfUnset());
  EXPECT_TRUE(flag.IsSet());
}

TEST_F(StopFlagTest, TimeLimitSetsIt) {
  StopFlag flag(0.01);
  SpinUntil([&] { return flag.IsSet(); });
  EXPECT_TRUE(Reads(flag));
  StopFlag at_once(0);
  EXPECT_TRUE(at_once.IsSet());
  StopFlag late(1e8);
  EXPECT_FALSE(late.IsSet());
}

TEST_F(StopFlagTest, ClearingBeginsTheTimeLimitAgain) {
  StopFlag flag(1e-9);
  SpinUntil([&] { return flag.IsSet(); });
  flag.Clear();
  SpinUntil([&] { return flag.IsSet(); });
}

}  // namespace
}  // namespace callout::internal
