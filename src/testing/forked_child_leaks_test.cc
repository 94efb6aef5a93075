// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

namespace {

TEST(ForkedChildLeaksDeathTest, WhatAThreadOfTheParentHoldsIsNone) {
  GTEST_FLAG_SET(death_test_style, "fast");  // Forks this process.
  std::atomic<int> stage{0};
  std::thread holder([&stage] {
    const auto held = std::make_unique<int>(1);
    stage = *held;
    stage.notify_one();
    stage.wait(1);
  });
  stage.wait(0);
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(0), "");
  stage = 2;
  stage.notify_one();
  holder.join();
}

}  // namespace
