// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/tap_site.h"

#include <gtest/gtest.h>

#include <latch>
#include <limits>
#include <thread>
#include <vector>

namespace callout::internal {
namespace {

constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;

TapAttributes MakeAttributes(int64_t every, int64_t min_interval_ns = 0, int64_t sample_ppb = kAllPpb) {
  TapAttributes attributes;
  attributes.every = every;
  attributes.min_interval_ns = min_interval_ns;
  attributes.sample_ppb = sample_ppb;
  return attributes;
}

std::vector<bool> Admit(Throttle& throttle, int times) {
  std::vector<bool> admitted;
  for (int i = 0; i < times; ++i) admitted.push_back(throttle.Admit());
  return admitted;
}

TEST(ThrottleTest, EveryOneAdmitsAll) {
  Throttle throttle(TapAttributes{});
  EXPECT_EQ(Admit(throttle, 3), (std::vector<bool>{true, true, true}));
}

TEST(ThrottleTest, EveryThirdBeginsWithTheFirst) {
  Throttle throttle(MakeAttributes(3));
  EXPECT_EQ(Admit(throttle, 7), (std::vector<bool>{true, false, false, true, false, false, true}));
}

TEST(ThrottleTest, StepsThatEveryDividesAreAdmittedWhateverCameBefore) {
  Throttle throttle(MakeAttributes(10));
  EXPECT_FALSE(throttle.Admit(0, 7));
  EXPECT_TRUE(throttle.Admit(0, 20));
  EXPECT_TRUE(throttle.Admit(0, 20));
  EXPECT_FALSE(throttle.Admit(0, 21));
  EXPECT_TRUE(throttle.Admit(0, -30));
}

TEST(ThrottleTest, EachDeviceHasItsOwnTurnsAndIntervals) {
  Throttle throttle(MakeAttributes(3, kHour));
  for (const int32_t device : {0, 1, 2050, 64, 65, 128, 2, -1, 63}) {
    EXPECT_TRUE(throttle.Admit(device)) << device;
    EXPECT_FALSE(throttle.Admit(device));
    EXPECT_FALSE(throttle.Admit(device));
    EXPECT_FALSE(throttle.Admit(device)) << "its turn, but too soon";
  }
  EXPECT_EQ(throttle.TakeSkipped(1), 3U);
  EXPECT_EQ(throttle.TakeSkipped(0), 3U);
  EXPECT_EQ(throttle.TakeSkipped(0), 0U);
  EXPECT_EQ(throttle.TakeSkipped(128), 3U);
  EXPECT_EQ(throttle.TakeSkipped(192), 0U);
  EXPECT_EQ(throttle.TakeSkipped(7), 0U);
}

TEST(ThrottleTest, SampleAdmitsAboutThatPart) {
  Throttle throttle(MakeAttributes(1, 0, kAllPpb / 4));
  int admitted = 0;
  constexpr int kTimes = 40'000;
  for (int i = 0; i < kTimes; ++i) admitted += throttle.Admit() ? 1 : 0;
  // The bound is ten standard deviations.
  EXPECT_NEAR(admitted, kTimes / 4, 870);
  EXPECT_EQ(throttle.TakeSkipped(), static_cast<uint32_t>(kTimes - admitted));
}

TEST(ThrottleTest, SampleOfOneAdmitsAll) {
  Throttle throttle(MakeAttributes(1, 0, kAllPpb));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(throttle.Admit());
}

TEST(ThrottleTest, WhatIsLeftOutIsCountedUntilItIsTaken) {
  Throttle throttle(MakeAttributes(3));
  Admit(throttle, 4);
  EXPECT_EQ(throttle.TakeSkipped(), 2U);
  EXPECT_EQ(throttle.TakeSkipped(), 0U);
  throttle.AddSkipped(5);
  EXPECT_EQ(throttle.TakeSkipped(), 5U);
}

TEST(ThrottleTest, WhatIsLeftOutUpstreamIsCountedByItself) {
  Throttle throttle(MakeAttributes(2));
  EXPECT_FALSE(throttle.Admit(0, 1, Throttle::Place::kUpstream));
  EXPECT_FALSE(throttle.Admit(0, 3));
  throttle.AddSkipped(4, 0, Throttle::Place::kUpstream);
  EXPECT_EQ(throttle.TakeSkipped(), 1U);
  EXPECT_EQ(throttle.TakeSkipped(0, Throttle::Place::kUpstream), 5U);
  EXPECT_EQ(throttle.TakeSkipped(0, Throttle::Place::kUpstream), 0U);
}

TEST(ThrottleTest, IntervalAdmitsTheFirstAndThenWaits) {
  Throttle throttle(MakeAttributes(1, kHour));
  EXPECT_EQ(Admit(throttle, 3), (std::vector<bool>{true, false, false}));
}

TEST(ThrottleTest, IntervalAppliesToWhatEveryLetsThrough) {
  Throttle throttle(MakeAttributes(2, kHour));
  EXPECT_EQ(Admit(throttle, 4), (std::vector<bool>{true, false, false, false}));
}

TEST(ThrottleTest, LongestIntervalMeansOnce) {
  Throttle throttle(MakeAttributes(1, std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(Admit(throttle, 3), (std::vector<bool>{true, false, false}));
}

TEST(ThrottleTest, IntervalThatIsOverAdmitsAgain) {
  Throttle throttle(MakeAttributes(1, 1));  // a nanosecond
  ASSERT_TRUE(throttle.Admit());
  const int64_t start = SteadyNanoseconds();
  while (SteadyNanoseconds() <= start + 1) {
  }
  EXPECT_TRUE(throttle.Admit());
}

int CountAdmittedByThreads(Throttle& throttle, int each) {
  constexpr int kThreads = 4;
  std::latch start(kThreads);
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int i = 0; i < each; ++i) admitted.fetch_add(throttle.Admit() ? 1 : 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return admitted.load();
}

TEST(ThrottleTest, ThreadsShareEvery) {
  Throttle throttle(MakeAttributes(8));
  EXPECT_EQ(CountAdmittedByThreads(throttle, 200), 100);
}

TEST(ThrottleTest, ThreadsShareAnInterval) {
  Throttle throttle(MakeAttributes(1, kHour));
  EXPECT_EQ(CountAdmittedByThreads(throttle, 100), 1);
}

}  // namespace
}  // namespace callout::internal
