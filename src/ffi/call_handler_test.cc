// SPDX-License-Identifier: Apache-2.0
//
// callout.v1.call from registration to the end of the executable, on runtimes of four ages.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "delivery/delivery.h"
#include "testing/call_site_fixture.h"
#include "testing/spin.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using CallHandlerTest = CallSiteTest;

TEST_P(CallHandlerTest, MetadataIsAnsweredByBothStages) {
  const auto instantiate = runtime_.QueryMetadata(&callout_v1_call_instantiate);
  EXPECT_EQ(instantiate.minor, std::min(3, GetParam()));
  EXPECT_GT(instantiate.state_type_id, 0);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_call_execute).minor, std::min(3, GetParam()));
}

TEST_P(CallHandlerTest, CallbackGetsArgumentsAndFillsResults) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.struct_size, sizeof(callout_call));
    EXPECT_EQ(call.num_args, 1U);
    EXPECT_EQ(call.num_results, 1U);
    EXPECT_EQ(call.device_ordinal, 1);
    EXPECT_EQ(call.run_id, 33);
    EXPECT_EQ(static_cast<const XLA_FFI_CallFrame*>(call.error_context)->args.size, 2);
    const auto* x = static_cast<const float*>(call.args[0].data);
    auto* y = static_cast<float*>(call.results[0].data);
    std::transform(x, x + 3, y, [](float value) { return 2 * value; });
    return OkStatus();
  };
  const auto site = NewSite();
  site->device_ordinal = 1;
  site->run_id = 33;
  FrameBuilder frame = Frame();
  frame.TokenArg().Arg(TestBuffer::Of<float>({3}, {1, 2, 3})).TokenRet().Ret(DType::kFloat32, {3});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int run = 0; run < 3; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(1).values<float>(), (std::vector<float>{2, 4, 6}));
}

TEST_P(CallHandlerTest, ManyOperandsArrive) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call& call) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < call.num_args; ++i) sum += *static_cast<const int32_t*>(call.args[i].data);
    for (uint32_t i = 0; i < call.num_results; ++i) {
      *static_cast<int32_t*>(call.results[i].data) = sum + static_cast<int32_t>(i);
    }
    return OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  for (int32_t i = 0; i < 33; ++i) frame.Arg(TestBuffer::Scalar(i));
  for (int i = 0; i < 20; ++i) frame.Ret(DType::kInt32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(frame.ret(i).values<int32_t>()[0], 528 + static_cast<int32_t>(i));
}

TEST_P(CallHandlerTest, ThreadedCallPassesItsTokenOnAndHidesIt) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_args, 1U);
    EXPECT_EQ(call.num_results, 1U);
    *static_cast<int32_t*>(call.results[0].data) = *static_cast<const int32_t*>(call.args[0].data) + 1;
    return OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1).Int64Attr("ordered", 1);
  frame.Arg(TestBuffer::Scalar(uint32_t{7})).Arg(TestBuffer::Scalar(int32_t{5}));
  frame.Ret(DType::kUint32, {}).Ret(DType::kInt32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<uint32_t>()[0], 7U);
  EXPECT_EQ(frame.ret(1).values<int32_t>()[0], 6);
}

TEST_P(CallHandlerTest, ThreadedAndDeferredCallHasTokenFirstAndStatusLast) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_results, 1U);
    *static_cast<int32_t*>(call.results[0].data) = 6;
    return OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1).Int64Attr("deferred", 1).Arg(TestBuffer::Scalar(uint32_t{7}));
  frame.Ret(DType::kUint32, {}).Ret(DType::kInt32, {}).Ret(DType::kInt32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<uint32_t>()[0], 7U);
  EXPECT_EQ(frame.ret(1).values<int32_t>()[0], 6);
  EXPECT_EQ(frame.ret(2).values<int32_t>()[0], 0);
}

TEST_P(CallHandlerTest, ThreadedCallWithoutATokenIsAnError) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1).Arg(TestBuffer::Of<uint32_t>({1}, {7})).Ret(DType::kUint32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "must be u32[], got u32[1] and u32[]"));
}

TEST_P(CallHandlerTest, UnknownNameFailsTheLoad) {
  const auto site = NewSite();
  FrameBuilder frame;
  frame.StringAttr("callback", "nobody");
  EXPECT_THAT(site->Instantiate(frame),
              StatusIs(StatusCode::kNotFound, "no callback is bound to the name 'nobody'; registered names:"));
  EXPECT_FALSE(site->has_state());
}

TEST_P(CallHandlerTest, NameOfTheWrongTypeFailsTheLoad) {
  const auto site = NewSite();
  FrameBuilder frame;
  frame.Int64Attr("callback", 1);
  EXPECT_THAT(site->Instantiate(frame), StatusIs(StatusCode::kInvalidArgument, "'callback' must be a string"));
}

TEST_P(CallHandlerTest, ErrorNamesCallbackAndDeviceAndKeepsItsCode) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call&) { return Status(StatusCode::kOutOfRange, "too far"); };
  const auto site = NewSite();
  site->device_ordinal = 2;
  FrameBuilder frame = Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kOutOfRange, "callout: callback 'test.f' failed on device 2: too far"));
}

TEST_P(CallHandlerTest, ExceptionsOfEitherKindBecomeErrors) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  callback->on_call = [](const callout_call&) -> Status { throw 42; };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "something that is not a std::exception"));
  callback->on_call = [](const callout_call&) -> Status { throw std::runtime_error("std boom"); };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "std boom"));
  callback->on_call = [](const callout_call&) { return OkStatus(); };
  EXPECT_THAT(site->Execute(frame), IsOk()) << "the site is usable after an error";
}

TEST_P(CallHandlerTest, ExecutableHoldsItsCallback) {
  auto callback = Bind();
  const int64_t callbacks = LiveCount(LiveKind::kCallback);
  auto site = NewSite();
  FrameBuilder frame = Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  callback.reset();
  EXPECT_EQ(LiveCount(LiveKind::kCallback), callbacks);
  EXPECT_THAT(site->Execute(frame), IsOk());
  site.reset();
  EXPECT_EQ(LiveCount(LiveKind::kCallback), callbacks - 1);
}

TEST_P(CallHandlerTest, SecondInstantiationThatTheRuntimeRefusesLeaksNothing) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const long references = callback.use_count();
  EXPECT_THAT(site->Instantiate(frame), StatusIs(ForeignCode(StatusCode::kFailedPrecondition), "State is already set"));
  EXPECT_EQ(callback.use_count(), references);
}

TEST_P(CallHandlerTest, ExecutionWithoutInstantiationIsAnError) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kNotFound, "State is not set"));
}

TEST_P(CallHandlerTest, OrderedCallComesAfterEarlierTapsOfItsDevice) {
  const auto tap = std::make_shared<BlockingCallback>("test.tap");
  const std::unique_ptr<TapSite> tap_site = MakeSite(tap);
  TestBuffer value = TestBuffer::Scalar(1);
  const callout_buffer view = value.view();
  ASSERT_THAT(Delivery::Get().Push(*tap_site, {.buffers = {&view, 1}, .device_ordinal = 1}), IsOk());
  const auto callback = Bind();
  std::atomic<int> calls{0};
  callback->on_call = [&](const callout_call& call) {
    EXPECT_TRUE(call.device_ordinal == 0 || tap->entered() == 1) << "the tap is on device 1";
    return ++calls, OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("ordered", 1);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  site->device_ordinal = 0;
  ASSERT_THAT(site->Execute(frame), IsOk()) << "nothing to wait for on device 0";
  tap->WaitUntilEntered(1);
  site->device_ordinal = 1;
  std::thread caller([&] { EXPECT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_EQ(calls.load(), 1) << "the tap has not returned";
  tap->Open();
  caller.join();
  EXPECT_EQ(calls.load(), 2);
  ASSERT_TRUE(Delivery::Get().Drain(kForever).empty());
}

TEST_P(CallHandlerTest, DevicesCallAtOnce) {
  const auto callback = Bind();
  std::latch both(2);
  callback->on_call = [&](const callout_call&) { return both.arrive_and_wait(), OkStatus(); };  // hangs if one waits
  std::unique_ptr<FakeSite> sites[2] = {NewSite(), NewSite()};
  std::thread devices[2];
  for (int32_t device = 0; device < 2; ++device) {
    devices[device] = std::thread([&, device] {
      sites[device]->device_ordinal = device;
      FrameBuilder frame = Frame();
      EXPECT_THAT(sites[device]->Instantiate(frame), IsOk());
      EXPECT_THAT(sites[device]->Execute(frame), IsOk());
    });
  }
  for (std::thread& device : devices) device.join();
}

INSTANTIATE_TEST_SUITE_P(Minors, CallHandlerTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
