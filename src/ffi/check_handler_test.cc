// SPDX-License-Identifier: Apache-2.0
//
// A failure on its way from the device that had it to all devices: `deferred` and callout.v1.check.
#include <gtest/gtest.h>

#include <cstring>

#include "callbacks/registry.h"
#include "ffi/handlers.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

class CheckHandlerTest : public WithLiveCounts<::testing::TestWithParam<int>> {
 protected:
  void SetUp() override {
    WithLiveCounts::SetUp();
    for (auto* handler : {&callout_v1_call_instantiate, &callout_v1_call_execute, &callout_v1_check_execute}) {
      ASSERT_THAT(runtime_.QueryMetadata(handler).status, IsOk());
    }
    callback_ = std::make_shared<FakeCallback>("test.f");
    (void)Registry::Get().Bind("test.f", callback_);
  }
  void TearDown() override {
    callback_.reset();
    EXPECT_EQ(FakeRuntime::live_errors(), 0);
    WithLiveCounts::TearDown();
  }

  /// Runs a deferred call with one f32[2] result; returns its status number.
  int32_t CallDeferred(std::vector<float>* values) {
    FakeSite site(runtime_, &callout_v1_call_instantiate, &callout_v1_call_execute);
    FrameBuilder frame;
    frame.StringAttr("callback", "py:test.f").Int64Attr("deferred", 1);
    frame.Ret(DType::kFloat32, {2}).Ret(DType::kInt32, {});
    EXPECT_THAT(site.Instantiate(frame), IsOk());
    EXPECT_THAT(site.Execute(frame), IsOk());
    *values = frame.ret(0).values<float>();
    return frame.ret(1).values<int32_t>()[0];
  }

  Status Check(FrameBuilder& frame) {
    frame.StringAttr("callback", "py:test.f");
    return FakeSite(runtime_, nullptr, &callout_v1_check_execute).Execute(frame);
  }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(GetParam());
  std::shared_ptr<FakeCallback> callback_;
};

TEST_P(CheckHandlerTest, SuccessIsZeroAndTheResultsStay) {
  callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_results, 1U) << "the status is not the callback's";
    const float values[2] = {3, 4};
    std::memcpy(call.results[0].data, values, sizeof(values));
    return OkStatus();
  };
  std::vector<float> values;
  EXPECT_EQ(CallDeferred(&values), 0);
  EXPECT_EQ(values, (std::vector<float>{3, 4}));
}

TEST_P(CheckHandlerTest, FailureComesBackWhereItIsChecked) {
  callback_->on_call = [](const callout_call&) { return Status(StatusCode::kOutOfRange, "too far"); };
  std::vector<float> values;
  const int32_t number = CallDeferred(&values);
  EXPECT_GT(number, 0);
  EXPECT_EQ(values, (std::vector<float>{0, 0})) << "what is summed over the devices must be defined";
  for (int device = 0; device < 3; ++device) {
    FrameBuilder frame;
    frame.Arg(TestBuffer::Scalar(number));
    EXPECT_THAT(Check(frame), StatusIs(StatusCode::kOutOfRange, "callback 'test.f' failed on device 0: too far"));
  }
}

TEST_P(CheckHandlerTest, ValuesPassThrough) {
  FrameBuilder frame;
  frame.Arg(TestBuffer::Scalar(int32_t{0}))
      .Arg(TestBuffer::Of<float>({3}, {1, 2, 3}))
      .Arg(TestBuffer::Scalar(uint8_t{7}));
  frame.Ret(DType::kFloat32, {3}).Ret(DType::kUint8, {});
  ASSERT_THAT(Check(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(frame.ret(1).values<uint8_t>()[0], 7);
}

TEST_P(CheckHandlerTest, FailureOfAnotherProcessNamesTheCallback) {
  FrameBuilder frame;
  frame.Arg(TestBuffer::Scalar(int32_t{2'000'000'000}));
  EXPECT_THAT(Check(frame), StatusIs(StatusCode::kInternal, "callback 'test.f' failed in another process"));
}

TEST_P(CheckHandlerTest, OperandsMustFitTheResults) {
  FrameBuilder none;
  EXPECT_THAT(Check(none), StatusIs(StatusCode::kInvalidArgument, "got 0 operands and 0 results"));
  FrameBuilder other_size;
  other_size.Arg(TestBuffer::Scalar(int32_t{0})).Arg(TestBuffer::Of<float>({3}, {1, 2, 3})).Ret(DType::kFloat32, {2});
  EXPECT_THAT(Check(other_size), StatusIs(StatusCode::kInvalidArgument, "got f32[3] and f32[2]"));
}

TEST_P(CheckHandlerTest, DeferredCallNeedsRoomForItsStatus) {
  FakeSite site(runtime_, &callout_v1_call_instantiate, &callout_v1_call_execute);
  FrameBuilder frame;
  frame.StringAttr("callback", "py:test.f").Int64Attr("deferred", 1).Ret(DType::kFloat64, {});
  ASSERT_THAT(site.Instantiate(frame), IsOk());
  EXPECT_THAT(site.Execute(frame), StatusIs(StatusCode::kInvalidArgument, "last result must be s32[], got f64[]"));
}

INSTANTIATE_TEST_SUITE_P(Minors, CheckHandlerTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
