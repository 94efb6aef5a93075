// SPDX-License-Identifier: Apache-2.0
//
// Tests hosts that exit with taps in their queues, and hosts that hang. Each runs in a process of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "callout/pjrt/executable.h"
#include "testing/host_programs.h"

namespace callout::pjrt {
namespace {

// Runs a program that calls or taps "f".
void RunProgram(const std::string& code, std::function<Status(const Call&)> function) {
  const auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN);
  const auto client = Client::Create(*plugin);
  const Compiler compiler(*client);
  const auto callback = compiler.MakeLoadedHostCallback(FunctionCallback("f", std::move(function)));
  const auto executable = compiler.Compile({code}, {.loaded_host_callbacks = {*callback}});
  if (!executable.ok()) std::abort();
  const std::vector<int64_t> dims = {4};
  const auto argument = Buffer::FromHost(*client, (*client)->devices()[0], dims, std::vector<float>(4, 1));
  if (!executable->Run({&*argument}).ok()) std::abort();
}

class HostServicesTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(HostServicesTest, ExitWaitsForQueuedTaps) {
  const auto exit_at_once = [] {
    int seen = 0;
    RunProgram(testdata::TapLoop("f", 20), [&seen](const Call&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // slower than the program
      if (++seen == 20) std::fputs("all are here", stderr);
      return OkStatus();
    });
    std::exit(7);
  };
  EXPECT_EXIT(exit_at_once(), ::testing::ExitedWithCode(7), "all are here");
}

TEST_F(HostServicesTest, ExitDoesNotWaitForEver) {
  const auto exit_with_a_stuck_tap = [] {
    setenv("CALLOUT_EXIT_TIMEOUT_S", "0.05", 1);
    RunProgram(testdata::TapLoop("f", 3), [](const Call&) {
      std::this_thread::sleep_for(std::chrono::hours(1));
      return OkStatus();
    });
    std::exit(7);
  };
  EXPECT_EXIT(exit_with_a_stuck_tap(), ::testing::ExitedWithCode(7), "3 tap records were not delivered within 0.05");
}

TEST_F(HostServicesTest, ATapMayExit) {
  const auto exit_in_a_tap = [] {
    RunProgram(testdata::TapLoop("f", 3), [](const Call&) -> Status { std::exit(7); });
    (void)BarrierWait();
  };
  EXPECT_EXIT(exit_in_a_tap(), ::testing::ExitedWithCode(7), "");
}

TEST_F(HostServicesTest, AHangIsReportedByItsName) {
  const auto hang = [] {
    setenv("CALLOUT_HANG_REPORT_S", "0.05", 1);
    RunProgram(testdata::Chain({"f"}), [](const Call& call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      for (int i = 0; i < 4; ++i) call.result<float>(0)[i] = 0;
      return OkStatus();
    });
    std::exit(7);
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(7), "hang report: callback 'f' has made no progress");
}

}  // namespace
}  // namespace callout::pjrt
