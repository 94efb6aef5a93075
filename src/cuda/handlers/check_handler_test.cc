// SPDX-License-Identifier: Apache-2.0
//
// How callout.v1.check copies on CUDA, and what it makes of a driver that fails.
// src/core/ffi/check_conformance_test.cc has the rest.
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
};

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
