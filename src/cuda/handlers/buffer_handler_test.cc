// SPDX-License-Identifier: Apache-2.0
//
// Tests of callout.v1.buffer on CUDA, from registration to the end of the executable. recorded_calls_test.cc tests
// `graph`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/callbacks/failures.h"
#include "core/callbacks/native_function.h"
#include "cuda/driver/stream_work.h"
#include "testing/buffer_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CudaBufferHandlerTest : public BufferSiteTest {
 protected:
  int32_t ReadNumber(TestBuffer& buffer) {
    int32_t number = -1;
    const cuda::ContextScope current(device());
    const auto from = reinterpret_cast<cuda::CUdeviceptr>(buffer.view().data);
    EXPECT_EQ(device().driver().MemcpyDtoHAsync(&number, from, sizeof(number), stream()), 0);
    EXPECT_THAT(Synchronize(device(), stream()), IsOk());
    return number;
  }

  TestBuffer NumberOnDevice() {
    TestBuffer floats = OnDevice({}, {1e30F});
    return TestBuffer::At(DType::kInt32, {}, floats.view().data);
  }
};

TEST_F(CudaBufferHandlerTest, OnlyTheCapturableOneMayBeCaptured) {
  constexpr uint32_t kCapturable = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_buffer_capturable_execute).traits, kCapturable);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_cuda_buffer_execute).traits, 0U);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_cuda_buffer_initialize).traits, 0U);
  EXPECT_GT(runtime_.QueryMetadata(&callout_v1_cuda_buffer_instantiate).state_type_id, 0);
}

TEST_F(CudaBufferHandlerTest, CallbackGetsTheDevicesMemoryAndStreamAndNobodyWaits) {
  TestBuffer in = OnDevice({2}, {1, 2}, 1);
  TestBuffer out = OnDevice({2}, {0, 0}, 1);
  const auto callback = Bind();
  callback->on_call = [&](const callout_call& call) {
    EXPECT_EQ(call.struct_size, sizeof(callout_call));
    EXPECT_EQ(call.platform, CALLOUT_PLATFORM_CUDA);
    EXPECT_EQ(call.device_ordinal, 1);
    EXPECT_EQ(call.run_id, 33);
    EXPECT_EQ(call.stream, stream(1));
    EXPECT_EQ(call.args[0].data, in.view().data);
    EXPECT_EQ(call.results[0].data, out.view().data);
    cuda::CUcontext current = nullptr;
    EXPECT_EQ(device(1).driver().CtxGetCurrent(&current), 0);
    EXPECT_EQ(current, device(1).context());
    return CopyOver(call);
  };
  const auto site = NewBufferSite(1);
  site->run_id = 33;
  FrameBuilder frame = BufferFrame();
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const int waits = fake()->calls("cuStreamSynchronize");
  fake()->hold();
  for (int run = 0; run < 2; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuStreamSynchronize"), waits);
  fake()->release();
  EXPECT_THAT(Read(out, 1), ElementsAre(1, 2));
}

TEST_F(CudaBufferHandlerTest, ResultInAnotherPlaceThanItsArgumentBeginsWithItsValue) {
  const auto callback = Bind();
  const auto site = NewBufferSite();
  FrameBuilder frame = BufferFrame();
  frame.Int64ArrayAttr("aliases", {0, 0});
  TestBuffer in = OnDevice({2}, {1, 2});
  TestBuffer out = OnDevice({2}, {0, 0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(1, 2));
  EXPECT_EQ(fake()->calls("cuMemcpyDtoDAsync"), 1);
  FrameBuilder in_place = BufferFrame();
  in_place.Int64ArrayAttr("aliases", {0, 0}).Arg(in).Ret(in);
  ASSERT_THAT(site->Execute(in_place), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoDAsync"), 1);
}

TEST_F(CudaBufferHandlerTest, WhatIsCapturedIsReplayedWithoutTheCallback) {
  int calls = 0;
  const auto callback = Bind();
  callback->on_call = [&](const callout_call& call) {
    ++calls;
    return CopyOver(call);
  };
  const auto site = NewBufferSite(0, &callout_v1_buffer_capturable_execute);
  FrameBuilder frame = BufferFrame();
  TestBuffer in = OnDevice({1}, {7});
  TestBuffer out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_buffer_initialize), IsOk());
  const cuda::ContextScope current(device());
  const auto executable = RecordCall(*site, frame);
  ASSERT_THAT(executable, IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(Launch(device(), *executable, stream()), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(7));
  EXPECT_EQ(calls, 1);
}

TEST_F(CudaBufferHandlerTest, FailureOfTheCallbackIsTheErrorOfTheProgram) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call&) { return InvalidArgument("too large"); };
  const auto site = NewBufferSite(1);
  FrameBuilder frame = BufferFrame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kInvalidArgument, "callback 'test.f' failed on device 1: too large"));
}

TEST_F(CudaBufferHandlerTest, DeferredFailureIsANumberOnTheDeviceAndTheResultsAreZeros) {
  bool fails = true;
  const auto callback = Bind();
  callback->on_call = [&](const callout_call& call) {
    EXPECT_EQ(call.num_results, 1U);
    return fails ? InvalidArgument("too large") : CopyOver(call);
  };
  const auto site = NewBufferSite();
  FrameBuilder frame = BufferFrame();
  TestBuffer out = OnDevice({2}, {5, 6});
  TestBuffer number = NumberOnDevice();
  frame.Int64Attr("deferred", 1).Arg(OnDevice({2}, {3, 4})).Ret(out).Ret(number);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(0, 0));
  const auto failure = FindFailure(ReadNumber(number));
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(*failure, StatusIs(StatusCode::kInvalidArgument, "too large"));
  fails = false;
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(3, 4));
  EXPECT_EQ(ReadNumber(number), 0);
}

TEST_F(CudaBufferHandlerTest, NumberOfADeferredCallIsOneFill) {
  const auto callback = Bind();
  callback->on_call = [&](const callout_call& call) { return CopyOver(call); };
  const auto site = NewBufferSite();
  FrameBuilder frame = BufferFrame();
  TestBuffer number = NumberOnDevice();
  frame.Int64Attr("deferred", 1).Arg(OnDevice({1}, {3})).Ret(OnDevice({1}, {0})).Ret(number);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const int fills = fake()->calls("cuMemsetD8Async") + fake()->calls("cuMemsetD32Async");
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuMemsetD8Async") + fake()->calls("cuMemsetD32Async"), fills + 1);
}

TEST_F(CudaBufferHandlerTest, CallThatXlaRecordsBeforeItHasRunSaysSo) {
  const auto callback = Bind();
  bool allocates = true;
  callback->on_call = [&](const callout_call& call) {
    if (allocates) {
      CALLOUT_ASSIGN_OR_RETURN(const cuda::DeviceMemory memory, AllocateDevice(device(), 64));
    }
    return CopyOver(call);
  };
  FrameBuilder frame = BufferFrame();
  frame.Arg(OnDevice({1}, {3})).Ret(OnDevice({1}, {0}));
  const auto record = [&](FakeSite& site) {
    Result<cuda::StreamCapture> capture = cuda::StreamCapture::Begin(device(), stream());
    EXPECT_THAT(capture, IsOk());
    Status status = site.Execute(frame);
    static_cast<void>(capture->End());
    return status;
  };
  const auto fresh = NewBufferSite(0, &callout_v1_buffer_capturable_execute);
  ASSERT_THAT(fresh->Instantiate(frame), IsOk());
  EXPECT_THAT(record(*fresh), StatusIs(StatusCode::kFailedPrecondition, "it had not run without being recorded"));
  const auto warm = NewBufferSite(0, &callout_v1_buffer_capturable_execute);
  ASSERT_THAT(warm->Instantiate(frame), IsOk());
  ASSERT_THAT(warm->Execute(frame), IsOk());
  const Status failed = record(*warm);
  EXPECT_THAT(failed, StatusIs(StatusCode::kFailedPrecondition, "cuMemAlloc"));
  EXPECT_EQ(failed.message().find("it had not run"), std::string_view::npos) << failed.message();
}

TEST_F(CudaBufferHandlerTest, NothingIsRecordedTwiceWhereXlaMayRecord) {
  const auto callback = Bind();
  int runs = 0;
  callback->on_call = [&](const callout_call& call) {
    ++runs;
    return CopyOver(call);
  };
  const auto site = NewBufferSite(0, &callout_v1_buffer_capturable_execute);
  FrameBuilder frame = BufferFrame();
  frame.Int64Attr("graph", 1).Arg(OnDevice({1}, {3})).Ret(OnDevice({1}, {0}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int run = 0; run < 3; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(fake()->calls("cuStreamBeginCapture"), 0);
}

TEST_F(CudaBufferHandlerTest, CallbackOfHostArraysIsRefused) {
  const auto callback = std::make_shared<FakeCallback>("test.f");
  ASSERT_EQ(Registry::Get().Bind("test.f", callback), "py:test.f");
  FrameBuilder frame = BufferFrame();
  EXPECT_THAT(NewBufferSite()->Instantiate(frame),
              StatusIs(StatusCode::kInvalidArgument, "callback 'test.f' works on arrays of the host"));
}

TEST_F(CudaBufferHandlerTest, AttributesThatItDoesNotHaveAreRefused) {
  const auto callback = Bind();
  FrameBuilder lanes = BufferFrame();
  lanes.Int64ArrayAttr("lane_dims", {2}).Int64ArrayAttr("lane_masks", {1});
  EXPECT_THAT(NewBufferSite()->Instantiate(lanes), StatusIs(StatusCode::kUnimplemented, "`lane_dims` on CUDA"));
  FrameBuilder threaded = BufferFrame();
  threaded.Int64Attr("threaded", 1);
  EXPECT_THAT(NewBufferSite()->Instantiate(threaded), StatusIs(StatusCode::kUnimplemented, "`threaded`"));
}

TEST_F(CudaBufferHandlerTest, DriverThatFailsIsTheErrorOfTheProgram) {
  const auto callback = Bind();
  const auto site = NewBufferSite();
  FrameBuilder frame = BufferFrame();
  frame.Int64ArrayAttr("aliases", {0, 0}).Arg(OnDevice({1}, {1})).Ret(OnDevice({1}, {2}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  fake()->fail("cuMemcpyDtoDAsync", 1, cuda::CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "CUDA_ERROR_INVALID_VALUE (1)"));
  ASSERT_THAT(site->Execute(frame), IsOk());
  const auto second = NewBufferSite();
  ASSERT_THAT(second->Instantiate(frame), IsOk());
  fake()->fail("cuDevicePrimaryCtxRetain", 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(second->Execute(frame), StatusIs(StatusCode::kResourceExhausted, "cuDevicePrimaryCtxRetain"));
  EXPECT_THAT(second->Execute(frame), IsOk());
}

// The arguments of the last call of SeePointers.
struct Seen {
  void* argument = nullptr;
  int64_t extent = 0;
  void* stream = nullptr;
};
Seen g_seen;

int32_t SeePointers(void** ptrs, const int64_t* dims, void* stream) {
  g_seen = {ptrs[0], dims[0], stream};
  return 0;
}

TEST_F(CudaBufferHandlerTest, PlainNativeFunctionGetsTheStream) {
  const callout_function function = {sizeof(function),
                                     CALLOUT_ABI_VERSION,
                                     CALLOUT_FUNCTION_POINTERS,
                                     reinterpret_cast<void (*)(void)>(&SeePointers),
                                     nullptr,
                                     0,
                                     0};
  const auto callback = MakeNativeFunction("test.f", function);
  ASSERT_THAT(callback, IsOk());
  ASSERT_EQ(Registry::Get().Bind("test.f", *callback), "py:test.f");
  const auto site = NewBufferSite();
  FrameBuilder frame = BufferFrame();
  TestBuffer in = OnDevice({3}, {1, 2, 3});
  frame.Arg(in);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(g_seen.argument, in.view().data);
  EXPECT_EQ(g_seen.extent, 3);
  EXPECT_EQ(g_seen.stream, stream());
}

}  // namespace
}  // namespace callout::internal
