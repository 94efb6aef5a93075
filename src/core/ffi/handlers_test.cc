// SPDX-License-Identifier: Apache-2.0
//
// Tests what callout.v1.call needs from runtimes of four ages. call_conformance_test.cc tests the target's behaviour on
// every platform.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/delivery/delivery.h"
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

TEST_P(CallHandlerTest, SecondInstantiationThatTheRuntimeRefusesLeaksNothing) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const long references = callback.use_count();
  EXPECT_THAT(site->Instantiate(frame), StatusIs(ForeignCode(StatusCode::kFailedPrecondition), "State is already set"));
  EXPECT_EQ(callback.use_count(), references);
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

INSTANTIATE_TEST_SUITE_P(Minors, CallHandlerTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
