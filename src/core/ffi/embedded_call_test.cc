// SPDX-License-Identifier: Apache-2.0
//
// Programs that embed the function that they call: attribute `library` of callout.v1.call.
#include <gtest/gtest.h>

#include "core/callbacks/binding_scope.h"
#include "core/callbacks/embedded_library.h"
#include "testing/call_site_fixture.h"
#include "testing/library_bytes.h"

namespace callout::internal {
namespace {

class EmbeddedCallTest : public CallSiteTest {
 protected:
  void TearDown() override {
    AllowEmbeddedCode(true);
    CallSiteTest::TearDown();
  }

  FrameBuilder Carrying(const std::string& symbol) {
    FrameBuilder frame;
    frame.StringAttr("callback", "carried");
    frame.DictionaryAttr(
        "library",
        {{"bytes", library_.bytes}, {"digest", library_.digest}, {"platform", library_.platform}, {"symbol", symbol}});
    return frame;
  }

  LibraryBytes library_ = LibraryBytes::Read(CALLOUT_NATIVE_CALLBACKS);
};

TEST_P(EmbeddedCallTest, FunctionIsCalledThoughNobodyBoundIt) {
  const auto site = NewSite();
  FrameBuilder frame = Carrying("scale");
  frame.Arg(TestBuffer::Of<float>({3}, {1, 2, 3})).Ret(DType::kFloat32, {3});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<float>(), (std::vector<float>{2, 4, 6}));
}

TEST_P(EmbeddedCallTest, RefusedCodeMayFailWhereItIsCalled) {
  const auto site = NewSite();
  FrameBuilder frame = Carrying("scale");
  {
    const Bindings none;
    BindingScope scope(none);
    scope.SetEmbeddedCode(/*allowed=*/false, /*fails_late=*/true);
    ASSERT_THAT(site->Instantiate(frame), IsOk());
  }
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kFailedPrecondition,
                       "callback 'carried' failed on device 0: callout: the program carries the native function"));
}

TEST_P(EmbeddedCallTest, LanesCallIt) {
  const auto site = NewSite();
  site->pool_threads = 3;
  FrameBuilder frame = Carrying("scale");
  frame.Int64ArrayAttr("lane_dims", {3}).Int64ArrayAttr("lane_masks", {1});
  frame.Arg(TestBuffer::Of<float>({3}, {1, 2, 3})).Ret(DType::kFloat32, {3});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<float>(), (std::vector<float>{2, 4, 6}));
}

TEST_P(EmbeddedCallTest, ErrorNamesItAsTheProgramDoes) {
  const auto site = NewSite();
  FrameBuilder frame = Carrying("refuse");
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "callback 'carried' failed on device 0: refused"));
}

TEST_P(EmbeddedCallTest, SitesShareItAndItDiesWithThem) {
  const int64_t callbacks = LiveCount(LiveKind::kCallback);
  auto one = NewSite();
  auto other = NewSite();
  FrameBuilder frame = Carrying("scale");
  ASSERT_THAT(one->Instantiate(frame), IsOk());
  ASSERT_THAT(other->Instantiate(frame), IsOk());
  EXPECT_EQ(LiveCount(LiveKind::kCallback), callbacks + 1);
  one.reset();
  other.reset();
  EXPECT_EQ(LiveCount(LiveKind::kCallback), callbacks);
}

TEST_P(EmbeddedCallTest, WhatCannotBeLoadedFailsTheLoad) {
  const auto load = [&](const std::string& symbol) {
    FrameBuilder frame = Carrying(symbol);
    return NewSite()->Instantiate(frame);
  };
  EXPECT_THAT(load("absent"), StatusIs(StatusCode::kNotFound, "'absent'"));
  AllowEmbeddedCode(false);
  EXPECT_THAT(load("scale"), StatusIs(StatusCode::kFailedPrecondition, "'carried'"));
  AllowEmbeddedCode(true);
  library_.digest[0] ^= 1;
  EXPECT_THAT(load("scale"), StatusIs(StatusCode::kInvalidArgument, "damaged"));
  library_.platform = "none";
  EXPECT_THAT(load("scale"), StatusIs(StatusCode::kFailedPrecondition, "is for none; this is"));
}

TEST_P(EmbeddedCallTest, LibraryOfAnotherTypeFailsTheLoad) {
  FrameBuilder frame = Frame();
  frame.StringAttr("library", library_.bytes);
  EXPECT_THAT(NewSite()->Instantiate(frame),
              StatusIs(StatusCode::kInvalidArgument, "attribute 'library' must be a dictionary"));
}

INSTANTIATE_TEST_SUITE_P(Minors, EmbeddedCallTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
