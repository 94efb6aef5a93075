// SPDX-License-Identifier: Apache-2.0
//
// A failure on its way from the CUDA device that had it to all devices: `deferred` and callout.v1.check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/cuda_call_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaCheckHandlerTest : public CudaCallTest {
 protected:
  Status Check(FrameBuilder frame, int ordinal = 0) {
    frame.StringAttr("callback", "py:test.f");
    const auto site = NewCheckSite(ordinal);
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }

  /// Runs a deferred call with one result; returns its number.
  int32_t CallDeferred(TestBuffer& result) {
    const auto site = NewSite();
    TestBuffer number = OnDevice<int32_t>({}, {-1});
    FrameBuilder frame = std::move(Frame().Int64Attr("deferred", 1).Arg(OnDevice({2}, {1, 2})).Ret(result).Ret(number));
    EXPECT_THAT(site->Instantiate(frame), IsOk());
    EXPECT_THAT(site->Execute(frame), IsOk());
    return Read<int32_t>(number)[0];
  }
};

TEST_F(CudaCheckHandlerTest, SuccessIsZeroOnTheDevice) {
  TestBuffer result = OnDevice({2}, {9, 9});
  EXPECT_EQ(CallDeferred(result), 0);
  EXPECT_THAT(Read(result), ElementsAre(2, 3));
}

TEST_F(CudaCheckHandlerTest, FailureComesBackOnEveryDevice) {
  callback_->on_call = [](const callout_call&) { return Status(StatusCode::kOutOfRange, "too far"); };
  TestBuffer result = OnDevice({2}, {9, 9});
  const int32_t number = CallDeferred(result);
  EXPECT_GT(number, 0);
  EXPECT_THAT(Read(result), ElementsAre(0, 0)) << "what is summed over the devices must be defined";
  for (int device = 0; device < 2; ++device) {
    EXPECT_THAT(Check(std::move(FrameBuilder().Arg(OnDevice<int32_t>({}, {number}, device))), device),
                StatusIs(StatusCode::kOutOfRange, "callback 'test.f' failed on device 0: too far"));
  }
}

TEST_F(CudaCheckHandlerTest, ValuesPassOnTheDevice) {
  TestBuffer out = OnDevice({3}, {0, 0, 0}), in_place = OnDevice({1}, {5});
  FrameBuilder frame;
  frame.Arg(OnDevice<int32_t>({}, {0})).Arg(OnDevice({3}, {1, 2, 3})).Arg(in_place);
  frame.Arg(TestBuffer::Zeros(DType::kFloat32, {0}));
  frame.Ret(out).Ret(in_place).Ret(DType::kFloat32, {0});
  ASSERT_THAT(Check(std::move(frame)), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoDAsync"), 1);
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync"), 1);
  EXPECT_THAT(Read(out), ElementsAre(1, 2, 3));
  EXPECT_THAT(Read(in_place), ElementsAre(5));
}

TEST_F(CudaCheckHandlerTest, OperandsMustFitTheResults) {
  EXPECT_THAT(Check(FrameBuilder()), StatusIs(StatusCode::kInvalidArgument, "got 0 operands and 0 results"));
  FrameBuilder frame;
  frame.Arg(OnDevice<int32_t>({}, {0})).Arg(OnDevice({3}, {1, 2, 3})).Ret(OnDevice({2}, {0, 0}));
  EXPECT_THAT(Check(std::move(frame)), StatusIs(StatusCode::kInvalidArgument, "got f32[3] and f32[2]"));
}

TEST_F(CudaCheckHandlerTest, EachCallOfTheDriverThatFailsIsTheErrorOfTheProgram) {
  for (const char* function : {"cuDevicePrimaryCtxRetain", "cuMemHostAlloc", "cuMemcpyDtoHAsync",
                               "cuStreamWriteValue32", "cuMemcpyDtoDAsync"}) {
    cuda::PinnedPool::ReleaseIdle();  // everything is made anew
    TestBuffer out = OnDevice({1}, {0});
    const auto frame = [&] {
      return std::move(FrameBuilder().Arg(OnDevice<int32_t>({}, {0})).Arg(OnDevice({1}, {1})).Ret(out));
    };
    FrameBuilder failing = frame();
    fake()->fail(function, 1, cuda::CUDA_ERROR_UNKNOWN);
    EXPECT_THAT(Check(std::move(failing)), StatusIs(StatusCode::kInternal, std::string(function)));
    EXPECT_THAT(Check(frame()), IsOk()) << "after " << function;
  }
}

}  // namespace
}  // namespace callout::internal
