// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "core/callbacks/in_flight.h"
#include "core/callbacks/run_context.h"
#include "testing/log_capture.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::HasSubstr;

int64_t NewRun() {
  static int64_t run = 1000;
  return ++run;
}

std::shared_ptr<RendezvousSite> NewPlace(size_t devices) { return std::make_shared<RendezvousSite>("f", devices); }

RendezvousSite::Joined Join(RendezvousSite& place, int32_t index, int64_t run) {
  Result<RendezvousSite::Joined> joined = place.Join({index, index, run, {}, {}});
  EXPECT_THAT(joined, IsOk());
  return *joined;
}

/// Returns the outcome that a participant gets that does not arrive last.
std::future<Status> OutcomeOf(const RendezvousSite::Joined& joined) {
  EXPECT_FALSE(joined.is_last);
  auto listener = std::make_shared<std::promise<Status>>();
  std::future<Status> outcome = listener->get_future();
  if (!joined.rendezvous->CallLater([listener](const Status& status) { listener->set_value(status); })) {
    listener->set_value(joined.rendezvous->outcome());
  }
  return outcome;
}

class RendezvousTest : public ::testing::Test {
 protected:
  void TearDown() override { RendezvousMonitor::Get().SetLimit(std::chrono::seconds(40)); }
};

TEST_F(RendezvousTest, OneCallForAllDevicesInEachStepOfALoop) {
  constexpr int32_t kDevices = 4;
  constexpr int kSteps = 500;
  const auto place = NewPlace(kDevices);
  const int64_t run = NewRun();
  int calls = 0;  // written by the last participant; the rendezvous order the writes
  std::vector<std::thread> devices;
  for (int32_t index = 0; index < kDevices; ++index) {
    devices.emplace_back([&, index] {
      for (int step = 0; step < kSteps; ++step) {
        int32_t mine = index + step, total = 0;
        const int64_t* const scalar = nullptr;
        const callout_buffer arg = {
            .dtype = static_cast<uint32_t>(DType::kInt32), .rank = 0, .data = &mine, .dims = scalar, .size_bytes = 4};
        callout_buffer result = arg;
        result.data = &total;
        const auto joined = place->Join({index, index, run, {&arg, 1}, {&result, 1}});
        ASSERT_THAT(joined, IsOk());
        if (joined->is_last) {
          ++calls;
          int32_t sum = 0;
          for (const auto& buffers : joined->rendezvous->participants()) sum += *static_cast<int32_t*>(buffers.args[0]);
          for (const auto& buffers : joined->rendezvous->participants())
            *static_cast<int32_t*>(buffers.results[0]) = sum;
          joined->rendezvous->End(OkStatus());
        } else if (!joined->rendezvous->WaitBriefly()) {
          ASSERT_THAT(OutcomeOf(*joined).get(), IsOk());
        }
        ASSERT_EQ(total, 6 + kDevices * step);
      }
    });
  }
  for (std::thread& device : devices) device.join();
  EXPECT_EQ(calls, kSteps);
}

TEST_F(RendezvousTest, DevicesThatComeToTwoCallsInDifferentOrdersNeedNoThreadToWaitOn) {
  const auto first = NewPlace(2), second = NewPlace(2);
  const int64_t run = NewRun();
  auto device_0 = OutcomeOf(Join(*first, 0, run));
  auto device_1 = OutcomeOf(Join(*second, 1, run));
  const auto at_second = Join(*second, 0, run), at_first = Join(*first, 1, run);
  ASSERT_TRUE(at_second.is_last && at_first.is_last);
  at_second.rendezvous->End(OkStatus());
  at_first.rendezvous->End(InvalidArgument("the first"));
  EXPECT_THAT(device_0.get(), StatusIs(StatusCode::kInvalidArgument, "the first"));
  EXPECT_THAT(device_1.get(), IsOk());
}

TEST_F(RendezvousTest, RunsDoNotMeetEachOther) {
  const auto place = NewPlace(2);
  const auto one = Join(*place, 0, NewRun()), other = Join(*place, 1, NewRun());
  EXPECT_FALSE(other.is_last);
  one.rendezvous->End(OkStatus());
  other.rendezvous->End(OkStatus());
}

TEST_F(RendezvousTest, DeviceThatComesAgainBeginsAnotherCall) {
  const auto place = NewPlace(2);
  const int64_t run = NewRun();
  const auto first = Join(*place, 0, run), second = Join(*place, 0, run);
  EXPECT_NE(first.rendezvous, second.rendezvous);
  const auto of_first = Join(*place, 1, run), of_second = Join(*place, 1, run);
  EXPECT_EQ(of_first.rendezvous, first.rendezvous) << "in turn";
  EXPECT_EQ(of_second.rendezvous, second.rendezvous);
  of_first.rendezvous->End(OkStatus());
  of_second.rendezvous->End(OkStatus());
}

TEST_F(RendezvousTest, PlaceThatNoDeviceHasIsRefused) {
  for (const int32_t index : {-1, 2}) {
    EXPECT_THAT(NewPlace(2)->Join({index, 0, NewRun(), {}, {}}),
                StatusIs(StatusCode::kInvalidArgument,
                         "callback 'f': the program's device " + std::to_string(index) + " came to a call of 2"));
  }
}

TEST_F(RendezvousTest, WhoeverWaitsForADeviceThatFailedFailsAndSoDoesWhoeverComesLater) {
  const auto place = NewPlace(3);
  const int64_t run = NewRun(), other_run = NewRun();
  auto device_0 = OutcomeOf(Join(*place, 0, run));
  const auto unharmed = Join(*place, 0, other_run);
  RendezvousMonitor::Get().NoteFailure(run, InvalidArgument("a check of device 1"));
  EXPECT_THAT(device_0.get(),
              StatusIs(StatusCode::kInvalidArgument, "another device of this run failed: a check of device 1"));
  EXPECT_THAT(place->Join({2, 2, run, {}, {}}), StatusIs(StatusCode::kInvalidArgument, "a check of device 1"));
  EXPECT_FALSE(unharmed.rendezvous->is_over());
  unharmed.rendezvous->End(OkStatus());
}

TEST_F(RendezvousTest, DeviceThatIsAboutToWaitHearsOfAFailure) {
  const auto place = NewPlace(2);
  const int64_t run = NewRun();
  const auto joined = Join(*place, 0, run);
  RendezvousMonitor::Get().NoteFailure(run, InvalidArgument("before it waits"));
  EXPECT_THAT(OutcomeOf(joined).get(), StatusIs(StatusCode::kInvalidArgument, "before it waits"));
}

TEST_F(RendezvousTest, CallThatIsBeingMadeIsNotGivenUp) {
  const auto place = NewPlace(2);
  const int64_t run = NewRun();
  auto device_0 = OutcomeOf(Join(*place, 0, run));
  const auto last = Join(*place, 1, run);
  RendezvousMonitor::Get().NoteFailure(run, InvalidArgument("meanwhile"));
  EXPECT_FALSE(last.rendezvous->GiveUp(InvalidArgument("too late")));
  last.rendezvous->End(OkStatus());
  EXPECT_THAT(device_0.get(), IsOk());
}

TEST_F(RendezvousTest, DeviceThatNeverComesIsReportedAndThenAllFail) {
  const LogCapture log;
  RendezvousMonitor::Get().SetLimit(std::chrono::milliseconds(40));
  const auto place = NewPlace(3);
  const int64_t run = NewRun();
  auto device_0 = OutcomeOf(Join(*place, 0, run)), device_2 = OutcomeOf(Join(*place, 2, run));
  constexpr const char* kWaiting = "callout: callback 'f': devices 0, 2 wait for device 1";
  EXPECT_THAT(device_0.get(), StatusIs(StatusCode::kDeadlineExceeded, kWaiting));
  EXPECT_THAT(device_2.get(), StatusIs(StatusCode::kDeadlineExceeded, ", which did not come within 0 s"));
  EXPECT_THAT(log.WaitFor("wait for device 1"), HasSubstr(kWaiting));
  EXPECT_THAT(place->Join({1, 1, run, {}, {}}), StatusIs(StatusCode::kDeadlineExceeded, kWaiting));
}

TEST_F(RendezvousTest, WhoComesWhenTheFirstIsToldOfTheFailureFailsAtOnce) {
  RendezvousMonitor::Get().SetLimit(std::chrono::milliseconds(10));
  const auto place = NewPlace(2);
  const int64_t run = NewRun();
  std::promise<Status> late;
  const auto come = [&](const Status&) { late.set_value(place->Join({1, 1, run, {}, {}}).status()); };
  ASSERT_TRUE(Join(*place, 0, run).rendezvous->CallLater(come));
  EXPECT_THAT(late.get_future().get(), StatusIs(StatusCode::kDeadlineExceeded, "device 0 waits for device 1"));
}

TEST_F(RendezvousTest, NobodyIsGivenUpWhileADeviceOfTheRunIsInACallback) {
  RendezvousMonitor::Get().SetLimit(std::chrono::milliseconds(10));
  const auto place = NewPlace(2);
  const int64_t busy = NewRun();
  const InFlightScope in_callback(Activity::kCall, 1, 1, busy);
  auto waits = OutcomeOf(Join(*place, 0, busy));
  // A participant that came later, to another run, is given up.
  EXPECT_THAT(OutcomeOf(Join(*place, 0, NewRun())).get(), StatusIs(StatusCode::kDeadlineExceeded, ""));
  const auto last = Join(*place, 1, busy);
  ASSERT_TRUE(last.is_last);
  last.rendezvous->End(OkStatus());
  EXPECT_THAT(waits.get(), IsOk());
}

TEST_F(RendezvousTest, TimeBeginsAgainWhenADeviceOfTheRunLeavesItsCallback) {
  constexpr auto kLimit = std::chrono::milliseconds(400);
  RendezvousMonitor::Get().SetLimit(kLimit);
  const auto place = NewPlace(2);
  const int64_t given = NewRun();
  const RunContext run(nullptr, static_cast<int32_t>(given));  // callbacks get another number than handlers
  std::future<Status> waits;
  std::chrono::steady_clock::time_point left;
  {
    const InFlightScope in_callback(Activity::kCall, 1, 1, given);
    waits = OutcomeOf(Join(*place, 0, run.launch_id()));
    // The other run is given up at the time at which the first one would have been.
    EXPECT_THAT(OutcomeOf(Join(*place, 0, NewRun())).get(), StatusIs(StatusCode::kDeadlineExceeded, ""));
    left = std::chrono::steady_clock::now();
  }
  EXPECT_THAT(waits.get(), StatusIs(StatusCode::kDeadlineExceeded, ""));
  // The look that gave up the other run saw this run in its callback. Without that, the next look, an eighth later,
  // would end it.
  EXPECT_GE(std::chrono::steady_clock::now() - left, kLimit / 4);
}

TEST_F(RendezvousTest, ManyFailedRunsAreRememberedAndForgottenInTime) {
  std::vector<int64_t> runs(200);
  for (int64_t& run : runs) RendezvousMonitor::Get().NoteFailure(run = NewRun(), InvalidArgument("gone"));
  for (const int64_t run : runs) EXPECT_TRUE(RendezvousMonitor::Get().FindFailure(run).has_value());
  RendezvousMonitor::Get().SetLimit(std::chrono::seconds(40), std::chrono::milliseconds(0));
  while (RendezvousMonitor::Get().FindFailure(runs.back()).has_value()) std::this_thread::yield();
}

TEST_F(RendezvousTest, ProgramGoesOnWithTheFloatingPointModesThatItHad) {
  const auto place = NewPlace(2);
  const int64_t run = NewRun();
  std::promise<int> rounding;
  std::thread([&] {
    ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
    ASSERT_TRUE(
        Join(*place, 0, run).rendezvous->CallLater([&](const Status&) { rounding.set_value(std::fegetround()); }));
  }).join();
  Join(*place, 1, run).rendezvous->End(OkStatus());
  EXPECT_EQ(rounding.get_future().get(), FE_UPWARD);
}

}  // namespace
}  // namespace callout::internal
