// SPDX-License-Identifier: Apache-2.0
//
// Tests of the steps of records on CUDA. A program runs ahead of its device: records that it skips meanwhile count
// after the records that are on their way, not before them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "callout/queue_policy.h"
#include "testing/cuda_tap_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaTapStepsTest : public CudaTapTest {
 protected:
  /// Binds a callback that appends the step of each record to steps_: how often its tap was reached on the record's
  /// device before.
  std::shared_ptr<FakeCallback> BindCounter() {
    auto callback = Bind();
    callback->on_deliver = [this](const Record& record) {
      int64_t& next = next_[record.device_ordinal];
      steps_.push_back(next + record.skipped);
      next = steps_.back() + 1;
      return OkStatus();
    };
    return callback;
  }

  void Execute(FrameBuilder& frame, FakeSite& site, int times) {
    for (int i = 0; i < times; ++i) EXPECT_THAT(site.Execute(frame), IsOk());
  }

  std::map<int32_t, int64_t> next_;
  std::vector<int64_t> steps_;
};

TEST_F(CudaTapStepsTest, EveryFourthIsOfItsStepHoweverFarAheadTheProgramIs) {
  const auto callback = BindCounter();
  FrameBuilder frame = Frame();
  frame.Int64Attr("every", 4).Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  fake()->hold();
  Execute(frame, *site, 20);
  fake()->release();
  Barrier();
  EXPECT_THAT(steps_, ElementsAre(0, 4, 8, 12, 16));
  EXPECT_EQ(callback->stats().skips.load(), 15U);
}

TEST_F(CudaTapStepsTest, DevicesCountByThemselves) {
  const auto callback = BindCounter();
  FrameBuilder frames[] = {Frame(), Frame()};
  std::vector<std::unique_ptr<FakeSite>> sites;
  for (const int i : {0, 1}) {
    frames[i].Int64Attr("every", 2 + i).Arg(OnDevice({}, {1.0F}, i));
    sites.push_back(NewTap(frames[i], i));
  }
  fake()->hold();
  for (const int i : {0, 1}) Execute(frames[i], *sites[i], 5);
  fake()->release();
  Barrier();
  std::sort(steps_.begin(), steps_.end());
  EXPECT_THAT(steps_, ElementsAre(0, 0, 2, 3, 4));
}

TEST_F(CudaTapStepsTest, RecordThatCannotBeQueuedIsAStepInItsPlace) {
  const auto callback = BindCounter();
  FrameBuilder frame = Frame();
  frame.Int64Attr("every", 2).Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  Execute(frame, *site, 2);
  fake()->fail("cuMemcpyDtoHAsync", 1, cuda::CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "cuMemcpyDtoHAsync"));
  fake()->hold();
  Execute(frame, *site, 5);
  fake()->release();
  Barrier();
  EXPECT_THAT(steps_, ElementsAre(0, 4, 6));
}

// The record is dropped when it has arrived, after the program has gone on.
TEST_F(CudaTapStepsTest, RecordThatTheQueueDoesNotTakeIsAStepInItsPlace) {
  constexpr size_t kDropped = 1 << 20;
  ASSERT_THAT(Delivery::Get().Configure({.queue_bytes = kMinQueueBytes}), IsOk());
  const auto blocking = std::make_shared<BlockingCallback>("test.blocking");
  EXPECT_EQ(Registry::Get().Bind("test.blocking", blocking), "py:test.blocking");
  FrameBuilder fills = Frame("test.blocking");
  fills.Arg(BytesOnDevice(kMinQueueBytes));
  Execute(fills, *NewTap(fills), 1);
  blocking->WaitUntilEntered(1);

  const auto callback = BindCounter();
  FrameBuilder frame = Frame();
  frame.Int64Attr("every", 2).Int64Attr("on_full", static_cast<int64_t>(OverflowPolicy::kDropNewest));
  frame.Arg(BytesOnDevice(kDropped));
  const auto site = NewTap(frame);
  Execute(frame, *site, 3);
  SpinUntil([&] { return callback->stats().drops.load() == 2; });
  fake()->hold();
  Execute(frame, *site, 5);
  blocking->Open();
  SpinUntil([] {
    const auto queues = Delivery::Get().QueueStatistics();
    return std::all_of(queues.begin(), queues.end(), [](const auto& queue) { return queue.stats.pending_bytes == 0; });
  });
  fake()->release();
  Barrier();
  EXPECT_THAT(steps_, ElementsAre(4, 6));
}

}  // namespace
}  // namespace callout::internal
