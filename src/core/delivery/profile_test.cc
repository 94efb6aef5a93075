// SPDX-License-Identifier: Apache-2.0
//
// The events that a profile records of taps, deliveries and calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "core/callbacks/in_flight.h"
#include "core/callbacks/invoke.h"
#include "core/delivery/delivery.h"
#include "core/profile/recorder.h"
#include "core/profile/trace_json.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using ::testing::IsEmpty;
using Kind = ProfileKind;

constexpr uint64_t kPlenty = 1'000'000;

class ProfileTest : public LiveCountTest {
 protected:
  ~ProfileTest() override {
    if (ProfileSession() != 0) (void)StopRecording();
  }
  static void Start() { ASSERT_THAT(StartRecording(kPlenty), IsOk()); }
  Recording DrainAndStop() {
    EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
    auto recording = StopRecording();
    EXPECT_TRUE(recording.ok());
    return std::move(recording).value();
  }
  static std::vector<ProfileEvent> Of(Kind kind, const Recording& recording) {
    std::vector<ProfileEvent> events;
    for (const ProfileEvent& event : recording.events) {
      if (event.kind == kind) events.push_back(event);
    }
    return events;
  }
  Status Push(TapSite& site, int32_t device = 0) {
    return delivery_.Push(site, {.buffers = {&view_, 1}, .device_ordinal = device});
  }

  TestBuffer value_ = TestBuffer::Scalar(1.5F);
  callout_buffer view_ = value_.view();
  Delivery delivery_;
};

TEST_F(ProfileTest, ATapAndItsDeliveryHaveOneFlow) {
  const auto callback = std::make_shared<FakeCallback>("ProfileTest.tap");
  const auto site = MakeSite(callback);
  ASSERT_THAT(Push(*site, 3), IsOk());
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
  Start();
  for (int i = 0; i < 3; ++i) ASSERT_THAT(Push(*site, 3), IsOk());
  const Recording recording = DrainAndStop();
  const auto taps = Of(Kind::kTap, recording);
  const auto deliveries = Of(Kind::kDelivery, recording);
  ASSERT_EQ(taps.size(), 3U);
  ASSERT_EQ(deliveries.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(taps[i].flow, FlowOf(1, 3, i + 2));
    EXPECT_EQ(deliveries[i].flow, taps[i].flow);
    EXPECT_EQ(taps[i].bytes, 4U);
    EXPECT_GT(taps[i].level, 4U) << "a record is more than its value";
    EXPECT_EQ(deliveries[i].queued, taps[i].queued);
    EXPECT_LE(taps[i].begin, taps[i].queued);
    EXPECT_LE(deliveries[i].queued, deliveries[i].begin);
    for (const ProfileEvent* event : {&taps[i], &deliveries[i]}) {
      EXPECT_EQ(recording.labels[event->label], "ProfileTest.tap");
      EXPECT_EQ(event->device, 3);
      EXPECT_EQ(event->worker, 1);
    }
    EXPECT_TRUE(recording.threads[deliveries[i].thread].delivers);
    EXPECT_FALSE(recording.threads[taps[i].thread].delivers);
  }
  EXPECT_GE(Of(Kind::kFlush, recording).size(), 1U);
  const auto levels = Of(Kind::kQueue, recording);
  ASSERT_GE(levels.size(), 1U);
  EXPECT_EQ(levels.back().level, 0U);
  EXPECT_EQ(levels.back().device, 3);
}

TEST_F(ProfileTest, OnlyAGatedWorkerWaitsForItsGate) {
  delivery_.SetGate(Worker::kPython, {.enter = [] { return true; }, .leave = [] {}});
  const auto python = std::make_shared<FakeCallback>("ProfileTest.python", Worker::kPython);
  const auto site = MakeSite(python);
  Start();
  ASSERT_THAT(Push(*site), IsOk());
  EXPECT_GE(Of(Kind::kGilWait, DrainAndStop()).size(), 1U);
  const auto native = std::make_shared<FakeCallback>("ProfileTest.native");
  const auto native_site = MakeSite(native);
  Start();
  ASSERT_THAT(Push(*native_site), IsOk());
  const Recording recording = DrainAndStop();
  EXPECT_EQ(Of(Kind::kDelivery, recording).size(), 1U);
  EXPECT_THAT(Of(Kind::kGilWait, recording), IsEmpty());
}

TEST_F(ProfileTest, DropsAndWaitsForRoomAreSeen) {
  ASSERT_THAT(delivery_.Configure({.queue_bytes = kMinQueueBytes}), IsOk());
  TestBuffer large = TestBuffer::Zeros(DType::kUint8, {9'000'000});
  const callout_buffer view = large.view();
  const auto blocking = std::make_shared<BlockingCallback>("ProfileTest.blocking");
  const auto site = MakeSite(blocking);
  const auto dropping = MakeSite(blocking, {.policy = OverflowPolicy::kDropNewest});
  Start();
  ASSERT_THAT(delivery_.Push(*site, {.buffers = {&view, 1}}), IsOk());
  blocking->WaitUntilEntered(1);
  ASSERT_THAT(delivery_.Push(*dropping, {.buffers = {&view, 1}}), IsOk());
  std::thread program([&] { EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view, 1}}), IsOk()); });
  while (delivery_.QueueStatistics()[0].stats.blocked == 0) std::this_thread::yield();
  blocking->Open();
  program.join();
  const Recording recording = DrainAndStop();
  EXPECT_EQ(Of(Kind::kTap, recording).size(), 2U);
  const auto drops = Of(Kind::kDrop, recording);
  ASSERT_EQ(drops.size(), 1U);
  EXPECT_EQ(drops[0].bytes, 9'000'000U);
  const auto waits = Of(Kind::kRoomWait, recording);
  ASSERT_EQ(waits.size(), 1U);
  const auto taps = Of(Kind::kTap, recording);
  EXPECT_TRUE(std::any_of(taps.begin(), taps.end(), [&](const ProfileEvent& tap) {
    return tap.thread == waits[0].thread && tap.begin <= waits[0].begin && waits[0].end <= tap.end;
  }));
}

TEST_F(ProfileTest, CallsAndFailuresAreSeen) {
  FakeCallback callback("ProfileTest.call");
  callback.on_call = [](const callout_call& call) {
    return call.num_results == 0 ? InvalidArgument("no") : OkStatus();
  };
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.device_ordinal = 2;
  call.num_args = call.num_results = 1;
  call.args = call.results = &view_;
  Start();
  EXPECT_THAT(Invoke(callback, call), IsOk());
  call.num_results = 0;
  EXPECT_THAT(Invoke(callback, call), StatusIs(StatusCode::kInvalidArgument, "ProfileTest.call"));
  const auto site = MakeSite(std::make_shared<FakeCallback>("ProfileTest.fails"));
  static_cast<FakeCallback&>(*site->callback).on_deliver = [](const Record&) { return InternalError("no"); };
  ASSERT_THAT(Push(*site), IsOk());
  const Recording recording = DrainAndStop();
  (void)delivery_.TakeErrors();
  const auto calls = Of(Kind::kCall, recording);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].bytes, 8U);
  EXPECT_EQ(calls[0].failed, 0);
  EXPECT_EQ(calls[1].failed, 1);
  EXPECT_EQ(calls[0].device, 2);
  EXPECT_EQ(Of(Kind::kDelivery, recording)[0].failed, 1);
}

TEST_F(ProfileTest, AnOrderedCallWaitsForTaps) {
  const auto blocking = std::make_shared<BlockingCallback>("ProfileTest.slow tap");
  const auto site = MakeSite(blocking);
  FakeCallback caller("ProfileTest.ordered");
  Start();
  ASSERT_THAT(Push(*site), IsOk());
  blocking->WaitUntilEntered(1);
  std::thread program([&] { delivery_.DrainDevice(caller, 0, 0); });
  const auto waits = [] {
    const auto all = ReadInFlight();
    return std::any_of(all.begin(), all.end(),
                       [](const auto& one) { return one.activity == Activity::kWaitingForTaps; });
  };
  while (!waits()) std::this_thread::yield();
  blocking->Open();
  program.join();
  const Recording recording = DrainAndStop();
  const auto events = Of(Kind::kTapWait, recording);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(recording.labels[events[0].label], "ProfileTest.ordered");
  EXPECT_GE(events[0].end, Of(Kind::kDelivery, recording)[0].end);
}

TEST_F(ProfileTest, ProfilesComeAndGoWhileProgramsTap) {
  const auto callback = std::make_shared<FakeCallback>("ProfileTest.busy");
  const auto site = MakeSite(callback);
  std::atomic<bool> stop{false};
  std::vector<std::thread> programs;
  for (int32_t device = 0; device < 3; ++device) {
    programs.emplace_back([&, device] {
      while (!stop.load(std::memory_order_relaxed)) EXPECT_THAT(Push(*site, device), IsOk());
    });
  }
  for (int round = 0; round < 5; ++round) {
    Start();
    const uint64_t goal = callback->stats().calls() + 200;
    while (callback->stats().calls() < goal) std::this_thread::yield();
    auto recording = StopRecording();
    ASSERT_TRUE(recording.ok());
    std::map<uint64_t, int> flows;
    for (const ProfileEvent& event : Of(Kind::kTap, *recording)) EXPECT_EQ(++flows[event.flow], 1);
    EXPECT_FALSE(Of(Kind::kDelivery, *recording).empty());
    (void)ArrangeRows(*recording);
  }
  stop.store(true);
  for (std::thread& program : programs) program.join();
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
}

}  // namespace
}  // namespace callout::internal
