// SPDX-License-Identifier: Apache-2.0
//
// The behaviour of callout.v1.call on every platform.
#include <latch>
#include <stdexcept>
#include <thread>

#include "testing/handler_conformance.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

template <typename Platform>
using CallConformance = HandlerConformance<Platform>;
TYPED_TEST_SUITE(CallConformance, HandlerPlatforms, PlatformNames);

TYPED_TEST(CallConformance, CallbackGetsArgumentsAndFillsResults) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.struct_size, sizeof(callout_call));
    EXPECT_EQ(call.num_args, 2U);
    EXPECT_EQ(call.num_results, 2U);
    EXPECT_EQ(call.device_ordinal, 1);
    EXPECT_EQ(call.run_id, 33);
    EXPECT_EQ(static_cast<const XLA_FFI_CallFrame*>(call.error_context)->args.size, 3);
    EXPECT_EQ(call.args[0].rank, 1U);
    EXPECT_EQ(call.args[0].dims[0], 2);
    EXPECT_EQ(call.args[0].dtype, static_cast<uint32_t>(DType::kFloat32));
    return AddOne(call);
  };
  const auto site = this->NewCall(1);
  site->run_id = 33;
  FrameBuilder frame = this->Frame();
  frame.TokenArg().Arg(this->OnDevice({2}, {1, 2}, 1)).Arg(this->OnDevice({}, {5}, 1));
  frame.TokenRet().Ret(this->OnDevice({2}, {0, 0}, 1)).Ret(this->OnDevice({}, {0}, 1));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int run = 0; run < 3; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(this->Read(frame.ret(1), 1), ElementsAre(2, 3));
  EXPECT_THAT(this->Read(frame.ret(2), 1), ElementsAre(6));
  EXPECT_THAT(this->Read(frame.arg(1), 1), ElementsAre(1, 2));
}

TYPED_TEST(CallConformance, ManyOperandsArrive) {
  this->callback_->on_call = [](const callout_call& call) {
    float sum = 0;
    for (uint32_t i = 0; i < call.num_args; ++i) sum += *static_cast<const float*>(call.args[i].data);
    for (uint32_t i = 0; i < call.num_results; ++i) {
      *static_cast<float*>(call.results[i].data) = sum + static_cast<float>(i);
    }
    return OkStatus();
  };
  FrameBuilder frame = this->Frame();
  for (int i = 0; i < 33; ++i) frame.Arg(this->OnDevice({}, {static_cast<float>(i)}));
  for (int i = 0; i < 20; ++i) frame.Ret(this->OnDevice({}, {0}));
  ASSERT_THAT(this->RunCall(frame), IsOk());
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(this->Read(frame.ret(i))[0], 528 + static_cast<float>(i));
}

TYPED_TEST(CallConformance, ArraysWithoutElementsHaveTheirExtents) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.args[0].size_bytes, 0U);
    EXPECT_EQ(call.args[0].dims[1], 3);
    EXPECT_EQ(call.results[0].size_bytes, 0U);
    *static_cast<float*>(call.results[1].data) = 4;
    return OkStatus();
  };
  FrameBuilder frame = this->Frame();
  frame.Arg(TestBuffer::Zeros(DType::kFloat32, {0, 3})).Ret(DType::kFloat32, {0}).Ret(this->OnDevice({1}, {0}));
  ASSERT_THAT(this->RunCall(frame), IsOk());
  EXPECT_THAT(this->Read(frame.ret(1)), ElementsAre(4));
}

TYPED_TEST(CallConformance, ThreadedCallPassesItsTokenOnAndHidesIt) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_args, 1U);
    EXPECT_EQ(call.num_results, 1U);
    return AddOne(call);
  };
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("threaded", 1).Int64Attr("ordered", 1);
  frame.Arg(this->template OnDevice<uint32_t>({}, {7})).Arg(this->OnDevice({}, {5}));
  frame.Ret(this->template OnDevice<uint32_t>({}, {0})).Ret(this->OnDevice({}, {0}));
  ASSERT_THAT(this->RunCall(frame), IsOk());
  EXPECT_THAT(this->template Read<uint32_t>(frame.ret(0)), ElementsAre(7U));
  EXPECT_THAT(this->Read(frame.ret(1)), ElementsAre(6));
}

TYPED_TEST(CallConformance, ThreadedAndDeferredCallHasTokenFirstAndStatusLast) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_results, 1U);
    *static_cast<float*>(call.results[0].data) = 6;
    return OkStatus();
  };
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("threaded", 1).Int64Attr("deferred", 1).Arg(this->template OnDevice<uint32_t>({}, {7}));
  frame.Ret(this->template OnDevice<uint32_t>({}, {0})).Ret(this->OnDevice({}, {0}));
  frame.Ret(this->template OnDevice<int32_t>({}, {77}));
  ASSERT_THAT(this->RunCall(frame), IsOk());
  EXPECT_THAT(this->template Read<uint32_t>(frame.ret(0)), ElementsAre(7U));
  EXPECT_THAT(this->Read(frame.ret(1)), ElementsAre(6));
  EXPECT_THAT(this->template Read<int32_t>(frame.ret(2)), ElementsAre(0));
}

TYPED_TEST(CallConformance, ThreadedCallWithoutATokenIsAnError) {
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("threaded", 1).Arg(this->template OnDevice<uint32_t>({1}, {7}));
  frame.Ret(this->template OnDevice<uint32_t>({}, {0}));
  EXPECT_THAT(this->RunCall(frame), StatusIs(StatusCode::kInvalidArgument, "must be u32[], got u32[1] and u32[]"));
}

TYPED_TEST(CallConformance, AttributesArriveAndAResultBeginsAsTheOperandThatItAliases) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.num_attributes, 1U);
    EXPECT_STREQ(static_cast<const char*>(call.attributes[0].data), "twice");
    auto* values = static_cast<float*>(call.results[0].data);
    for (int i = 0; i < 2; ++i) values[i] *= 2;
    return OkStatus();
  };
  FrameBuilder frame = this->Frame();
  frame.Int64ArrayAttr("aliases", {0, 0}).DictionaryAttr("attributes", {{"how", "twice"}});
  frame.Arg(this->OnDevice({2}, {1, 2})).Ret(this->OnDevice({2}, {0, 0}));
  ASSERT_THAT(this->RunCall(frame), IsOk());
  EXPECT_THAT(this->Read(frame.ret(0)), ElementsAre(2, 4));
  EXPECT_THAT(this->Read(frame.arg(0)), ElementsAre(1, 2));
}

TYPED_TEST(CallConformance, EachLaneIsACallOnItsPart) {
  this->callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.args[0].rank, 1U);
    const auto value = [](const callout_buffer& buffer) { return *static_cast<const float*>(buffer.data); };
    *static_cast<float*>(call.results[0].data) = value(call.args[0]) * value(call.args[1]);
    return OkStatus();
  };
  FrameBuilder frame = this->Frame();
  frame.Int64ArrayAttr("lane_dims", {3}).Int64ArrayAttr("lane_masks", {1, 0});
  frame.Arg(this->OnDevice({3, 1}, {1, 2, 3})).Arg(this->OnDevice({1}, {10})).Ret(this->OnDevice({3, 1}, {0, 0, 0}));
  ASSERT_THAT(this->RunCall(frame), IsOk());
  EXPECT_THAT(this->Read(frame.ret(0)), ElementsAre(10, 20, 30));
}

TYPED_TEST(CallConformance, UnknownNameFailsTheLoad) {
  const auto site = this->NewCall();
  FrameBuilder frame;
  frame.StringAttr("callback", "nobody");
  EXPECT_THAT(site->Instantiate(frame),
              StatusIs(StatusCode::kNotFound, "no callback is bound to the name 'nobody'; registered names:"));
  EXPECT_FALSE(site->has_state());
}

TYPED_TEST(CallConformance, NameOfTheWrongTypeFailsTheLoad) {
  FrameBuilder frame;
  frame.Int64Attr("callback", 1);
  EXPECT_THAT(this->NewCall()->Instantiate(frame),
              StatusIs(StatusCode::kInvalidArgument, "'callback' must be a string"));
}

TYPED_TEST(CallConformance, ErrorNamesCallbackAndDeviceAndKeepsItsCode) {
  this->callback_->on_call = [](const callout_call&) { return Status(StatusCode::kOutOfRange, "too far"); };
  FrameBuilder frame = this->Frame();
  EXPECT_THAT(this->RunCall(frame, 1),
              StatusIs(StatusCode::kOutOfRange, "callout: callback 'test.f' failed on device 1: too far"));
}

TYPED_TEST(CallConformance, ExceptionsOfEitherKindBecomeErrors) {
  const auto site = this->NewCall();
  FrameBuilder frame = this->Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  this->callback_->on_call = [](const callout_call&) -> Status { throw 42; };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "something that is not a std::exception"));
  this->callback_->on_call = [](const callout_call&) -> Status { throw std::runtime_error("std boom"); };
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "std boom"));
  this->callback_->on_call = [](const callout_call&) { return OkStatus(); };
  EXPECT_THAT(site->Execute(frame), IsOk()) << "the site is usable after an error";
}

TYPED_TEST(CallConformance, ExecutableHoldsItsCallback) {
  const int64_t callbacks = LiveCount(LiveKind::kCallback);
  auto site = this->NewCall();
  FrameBuilder frame = this->Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  this->callback_.reset();
  EXPECT_EQ(LiveCount(LiveKind::kCallback), callbacks);
  EXPECT_THAT(site->Execute(frame), IsOk());
  site.reset();
  EXPECT_EQ(LiveCount(LiveKind::kCallback), callbacks - 1);
}

TYPED_TEST(CallConformance, ExecutionWithoutInstantiationIsAnError) {
  FrameBuilder frame = this->Frame();
  EXPECT_THAT(this->NewCall()->Execute(frame), StatusIs(StatusCode::kNotFound, "State is not set"));
}

TYPED_TEST(CallConformance, DevicesCallAtOnce) {
  std::latch both(2);
  this->callback_->on_call = [&](const callout_call& call) {
    both.arrive_and_wait();  // hangs if one call waits for the other
    return AddOne(call);
  };
  std::vector<FrameBuilder> frames(2);
  for (int device = 0; device < 2; ++device) {
    const std::vector<float> value = {static_cast<float>(device)};
    FrameBuilder& frame = frames[static_cast<size_t>(device)] = this->Frame();
    frame.Arg(this->OnDevice({1}, value, device)).Ret(this->OnDevice({1}, {0}, device));
  }
  std::vector<std::thread> threads;
  for (int device = 0; device < 2; ++device) {
    threads.emplace_back(
        [&, device] { EXPECT_THAT(this->RunCall(frames[static_cast<size_t>(device)], device), IsOk()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(this->Read(frames[0].ret(0), 0), ElementsAre(1));
  EXPECT_THAT(this->Read(frames[1].ret(0), 1), ElementsAre(2));
}

}  // namespace
}  // namespace callout::internal
