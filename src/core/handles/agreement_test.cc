// SPDX-License-Identifier: Apache-2.0
#include "core/handles/agreement.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "callout/dtype.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

Answer Number(int value) {
  return std::make_shared<const std::vector<HostArray>>(std::vector<HostArray>{
      {.dtype = static_cast<uint32_t>(DType::kInt8), .dims = {}, .data = {static_cast<std::byte>(value)}}});
}

class AgreementTest : public ::testing::Test {
 protected:
  /// Returns the answer that `device` gets in `run` if it asks now.
  int Ask(int64_t run, int32_t device, uint32_t index = 0) {
    const Result<Answer> answer = agreement_.Ask(run, Handle{.index = index}, device, [this] { return now_; });
    return answer.ok() ? static_cast<int>((**answer)[0].data[0]) : -1;
  }

  Agreement agreement_{2};
  Result<Answer> now_ = Number(1);
};

TEST_F(AgreementTest, DeviceThatComesLaterHearsWhatTheFirstHeard) {
  EXPECT_EQ(Ask(7, 0), 1);
  now_ = Number(2);
  EXPECT_EQ(Ask(7, 0), 2);
  now_ = Number(3);
  EXPECT_EQ(Ask(7, 1), 1);
  EXPECT_EQ(Ask(7, 1), 2);
  EXPECT_EQ(Ask(7, 1), 3) << "the device is the first to ask this question";
  now_ = Number(4);
  EXPECT_EQ(Ask(7, 0), 3);
}

TEST_F(AgreementTest, RunsAndHandlesHaveAnswersOfTheirOwn) {
  EXPECT_EQ(Ask(7, 0), 1);
  now_ = Number(2);
  EXPECT_EQ(Ask(8, 1), 2);
  EXPECT_EQ(Ask(7, 1, 5), 2);
  EXPECT_EQ(Ask(7, 1), 1);
}

TEST_F(AgreementTest, FailureIsAnAnswer) {
  now_ = InvalidArgument("no");
  EXPECT_EQ(Ask(7, 0), -1);
  now_ = Number(2);
  EXPECT_EQ(Ask(7, 1), -1);
  EXPECT_EQ(Ask(7, 1), 2);
}

TEST_F(AgreementTest, OldAnswersGoWhenAllDevicesHaveHeardThem) {
  const Answer first = Number(1);
  now_ = first;
  (void)Ask(7, 0);
  now_ = Number(2);
  (void)Ask(7, 0);
  EXPECT_GT(first.use_count(), 1);
  EXPECT_EQ(Ask(7, 1), 1);
  EXPECT_EQ(Ask(7, 1), 2);
  EXPECT_EQ(first.use_count(), 1);
}

TEST_F(AgreementTest, RunsOfLongAgoAreForgotten) {
  const Answer first = Number(1);
  now_ = first;
  (void)Ask(7, 0);
  now_ = Number(2);
  for (int64_t run = 8; run < 72; ++run) (void)Ask(run, 0);
  EXPECT_EQ(first.use_count(), 1);
}

TEST_F(AgreementTest, AllThreadsLeaveALoopAtTheSameStep) {
  constexpr int kDevices = 4;
  Agreement agreement(kDevices);
  const Answer go = Number(0), stop = Number(1);
  for (int64_t run = 1; run <= 300; ++run) {
    std::atomic<bool> stopped{false};
    std::array<int, kDevices> steps{};
    std::vector<std::thread> devices;
    for (int32_t device = 0; device < kDevices; ++device) {
      devices.emplace_back([&, device] {
        const auto read = [&]() -> Result<Answer> { return stopped.load() ? stop : go; };
        while (*agreement.Ask(run, Handle(), device, read) == go) {
          if (++steps[static_cast<size_t>(device)] == 20 + device) stopped.store(true);
        }
      });
    }
    for (std::thread& device : devices) device.join();
    for (const int count : steps) ASSERT_EQ(count, steps[0]) << "in run " << run;
  }
}

}  // namespace
}  // namespace callout::internal
