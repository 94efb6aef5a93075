// SPDX-License-Identifier: Apache-2.0
//
// Tests, on every platform, how the failure of a call on one device reaches all devices: by the attribute `deferred` of
// the call and the target callout.v1.check.
#include "testing/handler_conformance.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

template <typename Platform>
class CheckConformance : public HandlerConformance<Platform> {
 protected:
  /// Runs a deferred call with one f32[2] result; returns its status number.
  int32_t CallDeferred(std::vector<float>* values) {
    FrameBuilder frame = this->Frame();
    frame.Int64Attr("deferred", 1).Arg(this->OnDevice({2}, {1, 2})).Ret(this->OnDevice({2}, {9, 9}));
    frame.Ret(this->template OnDevice<int32_t>({}, {-1}));
    EXPECT_THAT(this->RunCall(frame), IsOk());
    *values = this->Read(frame.ret(0));
    return this->template Read<int32_t>(frame.ret(1))[0];
  }

  TestBuffer Number(int32_t number, int ordinal = 0) { return this->template OnDevice<int32_t>({}, {number}, ordinal); }
};
TYPED_TEST_SUITE(CheckConformance, HandlerPlatforms, PlatformNames);

TYPED_TEST(CheckConformance, SuccessIsZeroAndTheResultsStay) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_results, 1U) << "the status is not the callback's";
    return AddOne(call);
  };
  std::vector<float> values;
  EXPECT_EQ(this->CallDeferred(&values), 0);
  EXPECT_THAT(values, ElementsAre(2, 3));
}

TYPED_TEST(CheckConformance, FailureComesBackOnEveryDevice) {
  this->callback_->on_call = [](const callout_call&) { return Status(StatusCode::kOutOfRange, "too far"); };
  std::vector<float> values;
  const int32_t number = this->CallDeferred(&values);
  EXPECT_GT(number, 0);
  EXPECT_THAT(values, ElementsAre(0, 0)) << "what is summed over the devices must be defined";
  for (int device = 0; device < 2; ++device) {
    FrameBuilder frame = this->Frame();
    frame.Arg(this->Number(number, device));
    EXPECT_THAT(this->RunCheck(frame, device),
                StatusIs(StatusCode::kOutOfRange, "callback 'test.f' failed on device 0: too far"));
  }
}

TYPED_TEST(CheckConformance, ValuesPassThrough) {
  FrameBuilder frame = this->Frame();
  frame.Arg(this->Number(0)).Arg(this->OnDevice({3}, {1, 2, 3})).Arg(this->template OnDevice<uint8_t>({}, {7}));
  frame.Arg(TestBuffer::Zeros(DType::kFloat32, {0}));
  frame.Ret(this->OnDevice({3}, {0, 0, 0})).Ret(this->template OnDevice<uint8_t>({}, {0})).Ret(DType::kFloat32, {0});
  ASSERT_THAT(this->RunCheck(frame), IsOk());
  EXPECT_THAT(this->Read(frame.ret(0)), ElementsAre(1, 2, 3));
  EXPECT_THAT(this->template Read<uint8_t>(frame.ret(1)), ElementsAre(7));
}

TYPED_TEST(CheckConformance, FailureOfAnotherProcessNamesTheCallback) {
  FrameBuilder frame = this->Frame();
  frame.Arg(this->Number(2'000'000'000));
  EXPECT_THAT(this->RunCheck(frame), StatusIs(StatusCode::kInternal, "callback 'test.f' failed in another process"));
}

TYPED_TEST(CheckConformance, OperandsMustFitTheResults) {
  FrameBuilder none = this->Frame();
  EXPECT_THAT(this->RunCheck(none), StatusIs(StatusCode::kInvalidArgument, "got 0 operands and 0 results"));
  FrameBuilder other_size = this->Frame();
  other_size.Arg(this->Number(0)).Arg(this->OnDevice({3}, {1, 2, 3})).Ret(this->OnDevice({2}, {0, 0}));
  EXPECT_THAT(this->RunCheck(other_size), StatusIs(StatusCode::kInvalidArgument, "got f32[3] and f32[2]"));
}

TYPED_TEST(CheckConformance, DeferredCallNeedsRoomForItsStatus) {
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("deferred", 1).Ret(this->template OnDevice<double>({}, {0}));
  EXPECT_THAT(this->RunCall(frame), StatusIs(StatusCode::kInvalidArgument, "last result must be s32[], got f64[]"));
}

}  // namespace
}  // namespace callout::internal
