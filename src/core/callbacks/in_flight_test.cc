// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/in_flight.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <latch>
#include <optional>
#include <thread>

namespace callout::internal {
namespace {

int64_t ThreadId() { return syscall(SYS_gettid); }

std::optional<InFlight> ReadingOf(int64_t thread_id) {
  for (const InFlight& reading : ReadInFlight()) {
    if (reading.thread_id == thread_id) return reading;
  }
  return std::nullopt;
}

TEST(InFlightTest, IdleThreadsAreNotRead) {
  EXPECT_FALSE(ReadingOf(ThreadId()).has_value());
  {
    const InFlightScope scope(Activity::kCall, 1, 0, 0);
  }
  EXPECT_FALSE(ReadingOf(ThreadId()).has_value());
}

TEST(InFlightTest, ScopeSaysWhatItsThreadDoes) {
  const InFlightScope scope(Activity::kDelivery, 17, 3, 99);
  const auto reading = ReadingOf(ThreadId());
  ASSERT_TRUE(reading.has_value());
  EXPECT_EQ(reading->activity, Activity::kDelivery);
  EXPECT_EQ(reading->callback_id, 17U);
  EXPECT_EQ(reading->device_ordinal, 3);
  EXPECT_EQ(reading->run_id, 99);
}

TEST(InFlightTest, InnerScopeHidesTheOuterOneUntilItEnds) {
  const InFlightScope outer(Activity::kCall, 1, 0, 10);
  {
    const InFlightScope inner(Activity::kWaitingForRoom, 2, 1, 20);
    const auto reading = ReadingOf(ThreadId());
    ASSERT_TRUE(reading.has_value());
    EXPECT_EQ(reading->activity, Activity::kWaitingForRoom);
    EXPECT_EQ(reading->callback_id, 2U);
  }
  const auto reading = ReadingOf(ThreadId());
  ASSERT_TRUE(reading.has_value());
  EXPECT_EQ(reading->activity, Activity::kCall);
  EXPECT_EQ(reading->callback_id, 1U);
  EXPECT_EQ(reading->device_ordinal, 0);
  EXPECT_EQ(reading->run_id, 10);
}

TEST(InFlightTest, TheInnermostCallbackOfTheThreadIsTheRunningOne) {
  Activity activity = Activity::kIdle;
  EXPECT_EQ(RunningCallback(activity), nullptr);
  const InFlightScope outer(Activity::kCall, 1, 0, 0, "outer");
  {
    const InFlightScope inner(Activity::kDelivery, 2, 0, 0, "inner");
    EXPECT_STREQ(RunningCallback(activity), "inner");
    EXPECT_EQ(activity, Activity::kDelivery);
    std::thread([] {
      Activity other = Activity::kIdle;
      EXPECT_EQ(RunningCallback(other), nullptr);
    }).join();
  }
  EXPECT_STREQ(RunningCallback(activity), "outer");
  EXPECT_EQ(activity, Activity::kCall);
}

TEST(InFlightTest, InsideCallIsTrueForThisThreadsCallsOnly) {
  EXPECT_FALSE(InsideCall());
  const InFlightScope call(Activity::kCall, 1, 0, 0);
  EXPECT_TRUE(InsideCall());
  std::thread([] { EXPECT_FALSE(InsideCall()); }).join();
  const InFlightScope delivery(Activity::kDelivery, 1, 0, 0);
  EXPECT_FALSE(InsideCall());
}

TEST(InFlightTest, SerialChangesAtEveryBeginAndEnd) {
  const InFlightScope outer(Activity::kCall, 1, 0, 0);
  const uint64_t before = ReadingOf(ThreadId())->serial;
  EXPECT_EQ(ReadingOf(ThreadId())->serial, before);
  uint64_t inside = 0;
  {
    const InFlightScope inner(Activity::kCall, 1, 0, 0);
    inside = ReadingOf(ThreadId())->serial;
    EXPECT_NE(inside, before);
  }
  EXPECT_NE(ReadingOf(ThreadId())->serial, inside);
  EXPECT_NE(ReadingOf(ThreadId())->serial, before);
}

TEST(InFlightTest, ThreadsAreReadApart) {
  std::latch inside(3);
  std::latch leave(1);
  int64_t ids[2] = {};
  std::thread threads[2];
  for (int t = 0; t < 2; ++t) {
    threads[t] = std::thread([&, t] {
      ids[t] = ThreadId();
      const InFlightScope scope(Activity::kCall, 100 + static_cast<uint64_t>(t), t, 0);
      inside.arrive_and_wait();
      leave.wait();
    });
  }
  inside.arrive_and_wait();
  for (int t = 0; t < 2; ++t) {
    const auto reading = ReadingOf(ids[t]);
    EXPECT_TRUE(reading.has_value());
    if (reading) {
      EXPECT_EQ(reading->callback_id, 100U + static_cast<uint64_t>(t));
      EXPECT_EQ(reading->device_ordinal, t);
    }
  }
  leave.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(ReadingOf(ids[0]).has_value());
  EXPECT_FALSE(ReadingOf(ids[1]).has_value());
}

TEST(InFlightTest, ThreadThatEndedLeavesItsSlotToTheNext) {
  std::thread([] { const InFlightScope scope(Activity::kCall, 1, 0, 0); }).join();
  uint64_t serial = 0;
  std::thread([&] {
    const InFlightScope scope(Activity::kCall, 2, 0, 0);
    const auto reading = ReadingOf(ThreadId());
    if (reading) serial = reading->serial;
  }).join();
  EXPECT_GT(serial, 1U) << "a fresh slot's first serial is 1";
}

}  // namespace
}  // namespace callout::internal
