// SPDX-License-Identifier: Apache-2.0
//
// Tests of released objects: which thread destroys them, in which order, and when nobody does.
#include "cuda/driver/handle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/process_state.h"
#include "testing/cuda_conformance.h"
#include "testing/spin.h"

namespace callout::internal::cuda {
namespace {

class ReaperTest : public DriverConformance {
 protected:
  /// Returns the values of all Remains from Number() that were destroyed, in this order.
  static std::vector<uint64_t>& Ended() {
    static std::vector<uint64_t> ended;
    return ended;
  }
  Remains Number(uint64_t value) const {
    return {&driver(), device().context(), 0, value, [](const Driver&, uint64_t number) { Ended().push_back(number); }};
  }
  void SetUp() override {
    DriverConformance::SetUp();
    Ended().clear();
  }
};

TEST_P(ReaperTest, WhoLetsGoDoesNotCallTheDriver) {
  Library library = NewLibrary();
  DeviceMemory memory = NewDeviceMemory(64);
  PinnedMemory pinned = NewPinned(64);
  const std::string before = fake()->thread_log();
  library.Reset();
  memory.Reset();
  pinned.Reset();
  EXPECT_EQ(fake()->thread_log(), before);
  EXPECT_EQ(Live(kSoftwareGpuLibrary), 0);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 0);
  EXPECT_EQ(Live(kSoftwareGpuDeviceMemory), 0);
}

TEST_P(ReaperTest, TheOrderStays) {
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 100; ++i) {
    Reaper::Get().Take(Number(i));
    numbers.push_back(i);
  }
  EXPECT_TRUE(Reaper::Get().Flush());
  EXPECT_EQ(Ended(), numbers);
}

TEST_P(ReaperTest, DeviceGoesBehindWhatWasMadeOnIt) {
  auto device = Take(Device::Retain(driver(), 0));
  PinnedMemory memory = Take(AllocatePinned(*device, 64));
  memory.Reset();
  device.reset();
  EXPECT_TRUE(Reaper::Get().Flush());
  EXPECT_EQ(fake()->calls("cuDevicePrimaryCtxRelease"), 1);
  EXPECT_EQ(fake()->calls("cuMemFreeHost"), 1);
  const std::string log = fake()->log();
  EXPECT_LT(log.find("cuMemFreeHost"), log.find("cuDevicePrimaryCtxRelease"));
}

TEST_P(ReaperTest, ThreadEndsWhenNothingIsLeftAndComesBack) {
  for (uint64_t round = 0; round < 20; ++round) {
    Reaper::Get().Take(Number(round));
    SpinUntil([] { return Reaper::Get().RunningThreads() == 0; });
    EXPECT_EQ(Ended().size(), round + 1);
  }
}

TEST_P(ReaperTest, RecordingsOfOtherThreadsSurvive) {
  const Stream stream = NewStream();
  DeviceMemory memory = NewDeviceMemory(64);
  ASSERT_EQ(driver().StreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  memory.Reset();
  EXPECT_TRUE(Reaper::Get().Flush());
  CUgraph raw = nullptr;
  ASSERT_EQ(driver().StreamEndCapture(stream.get(), &raw), CUDA_SUCCESS);
  const Graph graph(device(), raw);
}

TEST_P(ReaperTest, FlushGivesUpAtItsDeadline) {
  static std::atomic<bool> go_on{false};
  go_on = false;
  Reaper::Get().Take(
      {&driver(), nullptr, -1, 0, [](const Driver&, uint64_t) { SpinUntil([] { return go_on.load(); }); }});
  EXPECT_FALSE(Reaper::Get().Flush(std::chrono::steady_clock::now()));
  go_on = true;
  EXPECT_TRUE(Reaper::Get().Flush());
}

TEST_P(ReaperTest, ManyThreadsLetGo) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < 200; ++i) Reaper::Get().Take(Number(i));
      EXPECT_TRUE(Reaper::Get().Flush());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ended().size(), 800U);
}

// True while the reaper destroys an object that exit must wait for. A destructor checks this after all atexit handlers.
std::atomic<bool> must_end{false};
__attribute__((destructor)) void CheckThatItHasEnded() {
  if (must_end) std::_Exit(4);
}

using ReaperDeathTest = ReaperTest;

TEST_P(ReaperDeathTest, ExitAwaitsWhatIsBeingDestroyedAndLeavesTheRest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // Runs in a new process, not in a forked child.
  const auto leave = [&] {
    static std::atomic<bool> began{false};
    Reaper::Get().Take({&driver(), nullptr, -1, 0, [](const Driver&, uint64_t) {
                          must_end = began = true;
                          SpinUntil([] { return ProcessIsExiting(); });
                          std::this_thread::sleep_for(std::chrono::milliseconds(100));  // Imitates a slow driver.
                          must_end = false;
                        }});
    Reaper::Get().Take({&driver(), nullptr, -1, 0, [](const Driver&, uint64_t) { std::_Exit(3); }});
    SpinUntil([] { return began.load(); });
    std::atexit([] { SetProcessIsExiting(true); });
    std::exit(0);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0), "");
  GTEST_FLAG_SET(death_test_style, "fast");
}

TEST_P(ReaperDeathTest, ForkedChildLeavesTheDriverAlone) {
  Stream stream = NewStream();
  Reaper::Get().Take(Number(1));
  Reaper::Get().Flush();
  const auto destroy = [&] {
    stream.Reset();
    std::exit(fake()->calls("cuStreamDestroy"));
  };
  EXPECT_EXIT(destroy(), ::testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Double, ReaperTest, ::testing::Values(Subject::kDouble), SubjectName);
INSTANTIATE_TEST_SUITE_P(Double, ReaperDeathTest, ::testing::Values(Subject::kDouble), SubjectName);

}  // namespace
}  // namespace callout::internal::cuda
