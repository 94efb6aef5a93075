// SPDX-License-Identifier: Apache-2.0
//
// Tests of errors of callout.v1.call on CUDA: in the callback, in the program, in the driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "cuda/driver/stream_work.h"
#include "testing/cuda_call_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaCallErrorsTest : public CudaCallTest {
 protected:
  void SetUp() override {
    CudaCallTest::SetUp();
    in_.emplace(OnDevice({1}, {1}));
    out_.emplace(OnDevice({1}, {0}));
    token_.emplace(OnDevice<uint32_t>({}, {7}));
    token_out_.emplace(OnDevice<uint32_t>({}, {0}));
  }

  /// Returns a threaded call, so that copies of every kind occur.
  FrameBuilder Threaded() {
    return std::move(Frame().Int64Attr("threaded", 1).Arg(*token_).Arg(*in_).Ret(*token_out_).Ret(*out_));
  }

  std::optional<TestBuffer> in_, out_, token_, token_out_;
};

TEST_F(CudaCallErrorsTest, EachCallOfTheDriverThatFailsIsTheErrorOfTheProgram) {
  struct Case {
    const char* function;
    int code;
    const char* text;
  };
  for (const auto& [function, code, text] : {
           Case{"cuDevicePrimaryCtxRetain", 999, "CUDA_ERROR_UNKNOWN (999)"},
           Case{"cuCtxGetCurrent", 201, "CUDA_ERROR_INVALID_CONTEXT (201)"},
           Case{"cuCtxPushCurrent", 201, "CUDA_ERROR_INVALID_CONTEXT (201)"},
           Case{"cuMemcpyDtoDAsync", 1, "CUDA_ERROR_INVALID_VALUE (1)"},
           Case{"cuMemHostAlloc", 801, "CUDA_ERROR_NOT_SUPPORTED (801)"},
           Case{"cuEventCreate", 999, "CUDA_ERROR_UNKNOWN (999)"},
           Case{"cuMemcpyDtoHAsync", 1, "CUDA_ERROR_INVALID_VALUE (1)"},
           Case{"cuStreamWriteValue32", 400, "CUDA_ERROR_INVALID_HANDLE (400)"},
           Case{"cuMemcpyHtoDAsync", 1, "CUDA_ERROR_INVALID_VALUE (1)"},
       }) {
    FrameBuilder frame = Threaded();
    cuda::PinnedPool::ReleaseIdle();  // Everything must be allocated anew.
    const auto site = NewSite();
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    fake()->fail(function, 1, code);
    Status failed = site->Execute(frame);
    EXPECT_FALSE(failed.ok()) << function;
    EXPECT_NE(failed.message().find(text), std::string_view::npos) << function << ": " << failed.message();
    EXPECT_NE(failed.message().find(function), std::string_view::npos) << failed.message();
    // The site still works.
    EXPECT_THAT(site->Execute(frame), IsOk()) << "after " << function;
    EXPECT_THAT(Read(*out_), ElementsAre(2)) << "after " << function;
  }
}

TEST_F(CudaCallErrorsTest, CopiesNameTheCallback) {
  FrameBuilder frame = Threaded();
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  fake()->fail("cuMemcpyDtoHAsync", 1, 1);
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kInvalidArgument, "cuMemcpyDtoHAsync of callback 'test.f' on device 0 failed"));
}

TEST_F(CudaCallErrorsTest, NoMemoryToPinSaysHowMuchWasWantedForWhom) {
  FrameBuilder frame = Threaded();
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  fake()->fail("cuMemHostAlloc", 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  fake()->fail("cuMemHostAlloc", 2, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kResourceExhausted,
                       "no pinned memory for the 512 bytes of callback 'test.f': cuMemHostAlloc of 4160 bytes on "
                       "device 0 failed: CUDA_ERROR_OUT_OF_MEMORY (2)"));
}

TEST_F(CudaCallErrorsTest, ErrorOfTheCallbackIsThatOfTheProgramAndNothingIsCopiedOut) {
  FrameBuilder frame = Threaded();
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const int copies = fake()->calls("cuMemcpyHtoDAsync");
  callback_->on_call = [](const callout_call&) { return Status(StatusCode::kOutOfRange, "too far"); };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kOutOfRange, "callback 'test.f' failed on device 0: too far"));
  EXPECT_EQ(fake()->calls("cuMemcpyHtoDAsync"), copies);
  callback_->on_call = [](const callout_call&) -> Status { throw 42; };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "something that is not a std::exception"));
  callback_->on_call = &AddOne;
  EXPECT_THAT(site->Execute(frame), IsOk());
}

TEST_F(CudaCallErrorsTest, BrokenDeviceIsAnErrorAndNotAHang) {
  FrameBuilder frame = Threaded();
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  int calls = 0;
  callback_->on_call = [&](const callout_call&) { return ++calls, OkStatus(); };
  fake()->fail("cuMemcpyDtoHAsync", 1, cuda::CUDA_ERROR_ILLEGAL_ADDRESS);  // This error stays.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  }
  EXPECT_EQ(calls, 0);
}

TEST_F(CudaCallErrorsTest, DeviceThatBreaksWhileTheCallbackRunsIsAnError) {
  FrameBuilder frame = Threaded();
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  callback_->on_call = [&](const callout_call&) {
    const cuda::ContextScope current(device());
    fake()->fail("cuCtxSynchronize", 1, cuda::CUDA_ERROR_LAUNCH_FAILED);  // This error stays.
    EXPECT_EQ(device().driver().CtxSynchronize(), cuda::CUDA_ERROR_LAUNCH_FAILED);
    return OkStatus();
  };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "CUDA_ERROR_LAUNCH_FAILED (719)"));
}

TEST_F(CudaCallErrorsTest, CallWithoutAStreamIsTold) {
  FrameBuilder frame = Threaded();
  const auto site = NewSite();
  site->stream.reset();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kUnimplemented, "no stream for the call"));
}

TEST_F(CudaCallErrorsTest, CallInACaptureIsAnErrorOfTheCapture) {
  FrameBuilder frame = std::move(Frame().Arg(*in_).Ret(*out_));
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  const cuda::ContextScope current(device());
  auto capture = cuda::StreamCapture::Begin(device(), stream());
  ASSERT_THAT(capture, IsOk());
  int calls = 0;
  callback_->on_call = [&](const callout_call&) { return ++calls, OkStatus(); };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kFailedPrecondition, "CUDA_ERROR_"));
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(capture->End().ok());
}

}  // namespace
}  // namespace callout::internal
