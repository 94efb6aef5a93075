// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "core/callbacks/in_flight.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class WatchdogTest : public LiveCountTest {
 protected:
  void TearDown() override {
    StopWatchdog();
    SetHangReportSeconds(0);
    SetStackDumper(nullptr);
    LiveCountTest::TearDown();
  }

  // Binds a callback for the length of the test, so that reports know its name.
  static std::shared_ptr<BlockingCallback> Bind(const std::string& label) {
    auto callback = std::make_shared<BlockingCallback>(label);
    (void)Registry::Get().Bind(label, callback);
    return callback;
  }
  static callout_call OnDevice(int32_t device_ordinal) {
    callout_call call = {};
    call.struct_size = sizeof(call);
    call.device_ordinal = device_ordinal;
    call.run_id = 12;
    return call;
  }

  LogCapture log_;
};

TEST_F(WatchdogTest, ReportsACallbackThatDoesNotReturn) {
  const auto callback = Bind("watchdog.hangs");
  std::thread program([&] { EXPECT_THAT(Invoke(*callback, OnDevice(3)), IsOk()); });
  callback->WaitUntilEntered(1);
  SetHangReportSeconds(0.01);
  const std::string report = log_.WaitFor("'watchdog.hangs'");
  EXPECT_THAT(report, HasSubstr("40 hang report: callback 'watchdog.hangs' has made no progress for "));
  EXPECT_THAT(report, HasSubstr("(device 3, run 12, thread "));
  EXPECT_THAT(report, HasSubstr("in a callback that its program waits for"));
  EXPECT_THAT(report, HasSubstr("). " + Delivery::Get().DescribeQueues() + ". "));
  EXPECT_THAT(report, HasSubstr("runs another program on the same device"));
  callback->Open();
  program.join();
}

TEST_F(WatchdogTest, ReportsOfGpusSayWhatXlaDoesThere) {
  SetStackDumper([] { return std::string(); });
  NoteGpu(40);
  const auto alone = Bind("watchdog.alone");
  const auto among_others = Bind("watchdog.among_others");
  SetHangReportSeconds(0.01);
  const GpuScope gpu;
  {
    const InFlightScope scope(Activity::kCall, alone->id(), 40, 0);
    const std::string report = log_.WaitFor("'watchdog.alone'");
    EXPECT_THAT(report, HasSubstr("XLA_FLAGS=--xla_gpu_autotune_level=0"));
    EXPECT_THAT(report, Not(HasSubstr("terminate_timeout")));
  }
  NoteGpu(41);
  const InFlightScope scope(Activity::kCall, among_others->id(), 41, 0);
  const std::string report = log_.WaitFor("'watchdog.among_others'");
  EXPECT_THAT(report, HasSubstr("XLA ends the process when other GPUs have waited for this one for 40 s"));
  EXPECT_THAT(report, HasSubstr("--xla_gpu_executable_terminate_timeout=600"));
}

TEST_F(WatchdogTest, ReportsOfDeliveriesSayNothingOfGpusWhichDoNotWaitForThem) {
  NoteGpu(40);
  NoteGpu(41);
  const auto callback = Bind("watchdog.delivery");
  const InFlightScope scope(Activity::kDelivery, callback->id(), 40, 0);
  SetHangReportSeconds(0.01);
  EXPECT_THAT(log_.WaitFor("'watchdog.delivery'"), Not(HasSubstr("GPU")));
}

// Devices of a CPU have the same ordinals as GPUs.
TEST_F(WatchdogTest, ReportsOfOtherPlatformsSayNothingOfGpus) {
  NoteGpu(40);
  NoteGpu(41);
  const auto callback = Bind("watchdog.cpu");
  const InFlightScope scope(Activity::kCall, callback->id(), 40, 0);
  SetHangReportSeconds(0.01);
  EXPECT_THAT(log_.WaitFor("'watchdog.cpu'"), Not(HasSubstr("GPU")));
}

TEST_F(WatchdogTest, ReportsATapThatWaitsForRoom) {
  SetStackDumper([] { return std::string(); });  // a dumper makes reports assume an interpreter
  const auto callback = Bind("watchdog.full");
  const InFlightScope scope(Activity::kWaitingForRoom, callback->id(), 0, 0);
  SetHangReportSeconds(0.01);
  const std::string report = log_.WaitFor("'watchdog.full'");
  EXPECT_THAT(report, HasSubstr("waiting for room in a full tap queue"));
  EXPECT_THAT(report, HasSubstr("on_full=\"drop_newest\""));
}

TEST_F(WatchdogTest, ReportsATapsFunction) {
  const auto callback = Bind("watchdog.tap");
  const InFlightScope scope(Activity::kDelivery, callback->id(), 0, 0);
  SetHangReportSeconds(0.01);
  EXPECT_THAT(log_.WaitFor("'watchdog.tap'"), HasSubstr("in a tap's function"));
}

TEST_F(WatchdogTest, ReportsEachCallbackOnce) {
  const auto first = Bind("watchdog.first");
  const auto second = Bind("watchdog.second");
  const InFlightScope outer(Activity::kCall, first->id(), 0, 0);
  SetHangReportSeconds(0.01);
  (void)log_.WaitFor("'watchdog.first'");
  {
    const InFlightScope inner(Activity::kCall, second->id(), 0, 0);
    (void)log_.WaitFor("'watchdog.second'");
  }
  const auto third = Bind("watchdog.third");
  const InFlightScope last(Activity::kCall, third->id(), 0, 0);
  (void)log_.WaitFor("'watchdog.third'");
  const auto messages = log_.messages();
  EXPECT_EQ(messages.size(), 3U);
}

TEST_F(WatchdogTest, ReportCarriesTheStacks) {
  const auto callback = Bind("watchdog.stacks");
  SetStackDumper([] { return std::string("stack of everybody"); });
  const InFlightScope scope(Activity::kCall, callback->id(), 0, 0);
  SetHangReportSeconds(0.01);
  EXPECT_THAT(log_.WaitFor("'watchdog.stacks'"), HasSubstr("\nstack of everybody"));
}

TEST_F(WatchdogTest, StartsAgainAfterAStop) {
  SetHangReportSeconds(0.01);
  StopWatchdog();
  StopWatchdog();
  const auto callback = Bind("watchdog.again");
  const InFlightScope scope(Activity::kCall, callback->id(), 0, 0);
  SetHangReportSeconds(0.01);
  EXPECT_THAT(log_.WaitFor("'watchdog.again'"), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace callout::internal
