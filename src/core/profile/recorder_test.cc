// SPDX-License-Identifier: Apache-2.0
#include "core/profile/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <map>
#include <set>
#include <thread>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

constexpr uint64_t kPlenty = 1'000'000;

Recording Stop() {
  auto recording = StopRecording();
  EXPECT_THAT(recording.status(), IsOk());
  return std::move(recording).value();
}

void RecordNow(uint32_t session, uint64_t bytes) {
  const auto now = static_cast<int64_t>(Ticks());
  RecordEvent(session, {.begin = now, .end = now, .bytes = bytes});
}

TEST(RecorderTest, IsOffUntilItStarts) {
  EXPECT_EQ(ProfileSession(), 0U);
  EXPECT_FALSE(ProfileSpan().on());
  const auto stopped = StopRecording();
  EXPECT_THAT(stopped.status(), StatusIs(StatusCode::kFailedPrecondition, "no profile is being recorded"));
}

TEST(RecorderTest, OneRecordingAtATime) {
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  EXPECT_THAT(StartRecording(kPlenty), StatusIs(StatusCode::kFailedPrecondition, "recorded already"));
  (void)Stop();
  EXPECT_THAT(StartRecording(0), StatusIs(StatusCode::kInvalidArgument, "max_events"));
  EXPECT_EQ(ProfileSession(), 0U);
}

TEST(RecorderTest, KeepsEventsInTheirOrderWithTimesOfTheSteadyClock) {
  const int64_t before_ns = SteadyNanoseconds();
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  for (uint64_t i = 0; i < 1000; ++i) {
    const ProfileSpan span;
    span.End({.bytes = i, .device = 3});
  }
  const Recording recording = Stop();
  const int64_t after_ns = SteadyNanoseconds();
  EXPECT_EQ(recording.left_out, 0U);
  ASSERT_EQ(recording.events.size(), 1000U);
  for (size_t i = 0; i < recording.events.size(); ++i) {
    const ProfileEvent& event = recording.events[i];
    EXPECT_EQ(event.bytes, i);
    EXPECT_EQ(event.device, 3);
    EXPECT_GE(event.end, event.begin);
    if (i > 0) {
      EXPECT_GE(event.begin, recording.events[i - 1].end);
    }
  }
  EXPECT_GE(recording.begin_steady_ns, before_ns);
  EXPECT_LE(recording.begin_steady_ns + recording.duration_ns, after_ns);
  // The rate of the ticks may be off by a thousandth.
  EXPECT_LE(recording.events.back().end, recording.duration_ns + recording.duration_ns / 1000 + 1000);
}

TEST(RecorderTest, CountsWhatDoesNotFit) {
  for (const uint64_t max_events : {1, 255, 256, 257, 1000}) {
    ASSERT_THAT(StartRecording(max_events), IsOk());
    for (uint64_t i = 0; i < 2000; ++i) RecordNow(ProfileSession(), i);
    const Recording recording = Stop();
    EXPECT_EQ(recording.events.size(), max_events);
    EXPECT_EQ(recording.left_out, 2000 - max_events);
    EXPECT_EQ(recording.events.back().bytes, max_events - 1) << "the first are kept";
  }
}

TEST(RecorderTest, ASpanThatOutlivesItsRecordingIsInNone) {
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  const ProfileSpan open;
  EXPECT_TRUE(open.on());
  EXPECT_TRUE(Stop().events.empty());
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  open.End({.bytes = 1});
  EXPECT_TRUE(Stop().events.empty());
}

TEST(RecorderTest, WhatBeganWhileItWasOffIsIgnored) {
  std::atomic<uint64_t> cache{0};
  const ProfileSpan off;
  EXPECT_EQ(ProfileLabel(off.session(), "a", cache), 0U);
  off.End({.bytes = 1});
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  off.End({.bytes = 2});
  const Recording recording = Stop();
  EXPECT_TRUE(recording.events.empty());
  EXPECT_EQ(recording.labels.size(), 1U);
}

TEST(RecorderTest, LabelsAreNumberedAnewInEachRecording) {
  std::atomic<uint64_t> caches[2] = {};
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  EXPECT_EQ(ProfileLabel(ProfileSession(), "a", caches[0]), 1U);
  EXPECT_EQ(ProfileLabel(ProfileSession(), "b", caches[1]), 2U);
  EXPECT_EQ(ProfileLabel(ProfileSession(), "a", caches[0]), 1U);
  EXPECT_EQ(Stop().labels, (std::vector<std::string>{"", "a", "b"}));
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  EXPECT_EQ(ProfileLabel(ProfileSession(), "b", caches[1]), 1U);
  EXPECT_EQ(ProfileLabel(ProfileSession() - 1, "c", caches[1]), 0U) << "of a recording that is over";
  EXPECT_EQ(Stop().labels, (std::vector<std::string>{"", "b"}));
}

TEST(RecorderTest, ManyThreadsRecordWithoutLosingAnything) {
  constexpr int kThreads = 8;
  constexpr uint64_t kEach = 10'000;
  ASSERT_THAT(StartRecording(kThreads * kEach + kThreads * 256), IsOk());
  const uint32_t session = ProfileSession();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; ++i) RecordNow(session, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Recording recording = Stop();
  EXPECT_EQ(recording.left_out, 0U);
  EXPECT_EQ(recording.threads.size(), size_t{kThreads});
  ASSERT_EQ(recording.events.size(), kThreads * kEach);
  for (size_t i = 0; i < recording.events.size(); ++i) ASSERT_EQ(recording.events[i].bytes, i % kEach);
}

TEST(RecorderTest, StopsWhileThreadsRecord) {
  constexpr int kThreads = 4;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> recorded{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const ProfileSpan span;
        if (!span.on()) continue;
        span.End({.bytes = span.session()});
        recorded.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    ASSERT_THAT(StartRecording(10'000), IsOk());
    const uint32_t session = ProfileSession();
    const uint64_t goal = recorded.load() + 100;
    while (recorded.load(std::memory_order_relaxed) < goal) std::this_thread::yield();
    const Recording recording = Stop();
    EXPECT_GE(recording.events.size() + recording.left_out, 90U);
    for (const ProfileEvent& event : recording.events) ASSERT_EQ(event.bytes, session);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST(RecorderTest, AThreadIsNamedAndItsRoleKnown) {
  ASSERT_THAT(StartRecording(kPlenty), IsOk());
  pid_t id = 0;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "recorder-test");
    ProfileThreadDelivers();
    id = gettid();
    RecordNow(ProfileSession(), 1);
  }).join();
  RecordNow(ProfileSession(), 2);
  const Recording recording = Stop();
  ASSERT_EQ(recording.threads.size(), 2U);
  for (const ProfileEvent& event : recording.events) {
    const ProfileThread& thread = recording.threads[event.thread];
    EXPECT_EQ(thread.delivers, event.bytes == 1);
    if (event.bytes == 1) {
      EXPECT_EQ(thread.name, "recorder-test");
    }
    EXPECT_EQ(thread.id, event.bytes == 1 ? id : gettid());
  }
}

TEST(RecorderTest, FlowsOfDifferentRecordsDiffer) {
  std::set<uint64_t> flows;
  for (const uint8_t worker : {uint8_t{0}, uint8_t{1}}) {
    for (const int32_t device : {-1, 0, 1, 2048}) {
      for (const uint64_t sequence : {1, 2, 1000000}) flows.insert(FlowOf(worker, device, sequence));
    }
  }
  EXPECT_EQ(flows.size(), 24U);
  EXPECT_FALSE(flows.contains(0));
}

}  // namespace
}  // namespace callout::internal
