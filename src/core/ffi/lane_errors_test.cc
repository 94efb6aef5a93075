// SPDX-License-Identifier: Apache-2.0
//
// Lanes that fail, and attributes that describe no batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "core/callbacks/failures.h"
#include "testing/call_site_fixture.h"

namespace callout::internal {
namespace {

class LaneErrorsTest : public CallSiteTest {
 protected:
  // Calls `lane` with the number of each lane of eight.
  Status RunEight(std::function<Status(int32_t)> lane, std::optional<int64_t> pool_threads) {
    const auto callback = Bind();
    callback->on_call = [&](const callout_call& call) { return lane(*static_cast<const int32_t*>(call.args[0].data)); };
    const auto site = NewSite();
    site->pool_threads = pool_threads;
    FrameBuilder frame = LaneFrame({8}, {1});
    frame.Arg(TestBuffer::Of<int32_t>({8}, {0, 1, 2, 3, 4, 5, 6, 7}));
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }
  // Runs a batch that must fail before any callback is called.
  Status Refuse(FrameBuilder frame) {
    const auto callback = Bind();
    callback->on_call = [](const callout_call&) { return ADD_FAILURE() << "it was called", OkStatus(); };
    const auto site = NewSite();
    site->pool_threads = 2;
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }
};

TEST_P(LaneErrorsTest, FirstFailingLaneIsToldWhicheverFailsFirst) {
  for (int run = 0; run < 20; ++run) {
    const int32_t sooner = run % 2 == 0 ? 3 : 5;
    std::latch both_run(2);
    std::latch sooner_fails(1);
    std::atomic<int> before_three{0};
    const auto lane = [&](int32_t number) {
      if (number < 3) ++before_three;
      if (number == 3 || number == 5) {
        both_run.arrive_and_wait();
        number == sooner ? sooner_fails.count_down() : sooner_fails.wait();
        for (int i = 0; number != sooner && i < 100; ++i) std::this_thread::yield();  // likely, but not surely, later
      }
      return number == 3 || number >= 5 ? Status(StatusCode::kOutOfRange, "too far") : OkStatus();
    };
    const Status status = RunEight(lane, 4);
    ASSERT_EQ(status.code(), StatusCode::kOutOfRange);
    ASSERT_EQ(status.message(), "callout: callback 'test.f' failed on device 0: too far (lane 3 of 8)");
    ASSERT_EQ(before_three.load(), 3);
  }
}

TEST_P(LaneErrorsTest, LanesAfterAFailureAreLeftOut) {
  int calls = 0;
  const auto lane = [&](int32_t number) { return ++calls, number == 3 ? Unavailable("no") : OkStatus(); };
  EXPECT_THAT(RunEight(lane, std::nullopt), StatusIs(StatusCode::kUnavailable, "no (lane 3 of 8)"));
  EXPECT_EQ(calls, 4);
}

TEST_P(LaneErrorsTest, ExceptionsOfEitherKindBecomeErrors) {
  const auto standard = [](int32_t number) -> Status {
    return number == 2 ? throw std::runtime_error("std boom") : OkStatus();
  };
  EXPECT_THAT(RunEight(standard, 4), StatusIs(StatusCode::kInternal, "std boom (lane 2 of 8)"));
  const auto other = [](int32_t number) -> Status { return number >= 6 ? throw 42 : OkStatus(); };
  EXPECT_THAT(RunEight(other, 4),
              StatusIs(StatusCode::kInternal, "something that is not a std::exception (lane 6 of 8)"));
}

TEST_P(LaneErrorsTest, SiteIsUsableAfterAFailure) {
  const auto callback = Bind();
  const auto site = NewSite();
  site->pool_threads = 2;
  FrameBuilder frame = LaneFrame({2}, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  callback->on_call = [](const callout_call&) { return Unavailable("no"); };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kUnavailable, "no (lane 0 of 2)"));
  callback->on_call = [](const callout_call&) { return OkStatus(); };
  EXPECT_THAT(site->Execute(frame), IsOk());
}

TEST_P(LaneErrorsTest, DeferredFailureIsKeptAndResultsAreZeros) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call& call) {
    const int32_t number = *static_cast<const int32_t*>(call.args[0].data);
    *static_cast<int32_t*>(call.results[0].data) = 100;
    return number == 6 ? Unavailable("not now") : OkStatus();
  };
  const auto site = NewSite();
  site->pool_threads = 2;
  FrameBuilder frame = LaneFrame({3}, {1});
  frame.Int64Attr("deferred", 1).Arg(TestBuffer::Of<int32_t>({3}, {5, 6, 7}));
  frame.Ret(DType::kInt32, {3}).Ret(DType::kInt32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<int32_t>(), (std::vector<int32_t>{0, 0, 0}));
  const auto failure = FindFailure(frame.ret(1).values<int32_t>()[0]);
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(*failure, StatusIs(StatusCode::kUnavailable, "failed on device 0: not now (lane 1 of 3)"));
}

TEST_P(LaneErrorsTest, MasksMustBeOneAnOperand) {
  for (const std::vector<int64_t>& masks : {std::vector<int64_t>{}, {1}, {1, 1, 1}}) {
    FrameBuilder frame = LaneFrame({2}, masks);
    frame.Arg(TestBuffer::Zeros(DType::kInt32, {2})).Arg(TestBuffer::Zeros(DType::kInt32, {2}));
    EXPECT_THAT(Refuse(std::move(frame)),
                StatusIs(StatusCode::kInvalidArgument,
                         "callout: `lane_masks` is for " + std::to_string(masks.size()) + " operands, the call has 2"));
  }
}

TEST_P(LaneErrorsTest, OperandsAndResultsMustHaveTheExtents) {
  const auto expected =
      StatusIs(StatusCode::kInvalidArgument, "does not have the extents of the batch that `lane_masks` tells");
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {2}, {3, 2}, {2, 4}}) {
    FrameBuilder operand = LaneFrame({2, 3}, {0b11});
    operand.Arg(TestBuffer::Zeros(DType::kInt32, dims));
    EXPECT_THAT(Refuse(std::move(operand)), expected);
    FrameBuilder result = LaneFrame({2, 3}, {});
    result.Ret(DType::kInt32, dims);
    EXPECT_THAT(Refuse(std::move(result)), expected);
  }
  FrameBuilder inner = LaneFrame({2, 3}, {0b10});
  inner.Arg(TestBuffer::Zeros(DType::kInt32, {2}));
  EXPECT_THAT(Refuse(std::move(inner)), expected);
}

TEST_P(LaneErrorsTest, ElementsOfLessThanAByteAreRefused) {
  const auto expected = StatusIs(StatusCode::kInvalidArgument, "lanes of an element type of less than a byte");
  for (const int64_t mask : {0, 1}) {
    FrameBuilder operand = LaneFrame({2}, {mask});
    operand.Arg(TestBuffer::Zeros(DType::kInt4, {2, 2}));
    EXPECT_THAT(Refuse(std::move(operand)), expected);
  }
  FrameBuilder result = LaneFrame({2}, {});
  result.Ret(DType::kUint2, {2, 4});
  EXPECT_THAT(Refuse(std::move(result)), expected);
}

TEST_P(LaneErrorsTest, AttributesOfAnotherTypeFailTheLoad) {
  for (const char* name : {"lane_dims", "lane_masks"}) {
    FrameBuilder frame = Frame();
    frame.Int64Attr(name, 2);
    EXPECT_THAT(Refuse(std::move(frame)), StatusIs(StatusCode::kInvalidArgument,
                                                   "'" + std::string(name) + "' must be an array of 64-bit integers"));
  }
}

// Without operands and results, only `lane_dims` gives the size of a batch.
TEST_P(LaneErrorsTest, ExtentsThatNoBatchHasFailTheLoad) {
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, -3}, {6, int64_t{1} << 62}, {0, -1}}) {
    EXPECT_THAT(Refuse(LaneFrame(extents, {})), StatusIs(StatusCode::kInvalidArgument, "with which no batch can be"));
  }
}

TEST_P(LaneErrorsTest, TooManyDimensionsFailTheLoad) {
  EXPECT_THAT(Refuse(LaneFrame(std::vector<int64_t>(63, 1), {})),
              StatusIs(StatusCode::kInvalidArgument, "callout: too many batch dimensions"));
}

INSTANTIATE_TEST_SUITE_P(Minors, LaneErrorsTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
