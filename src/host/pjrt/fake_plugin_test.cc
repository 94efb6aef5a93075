// SPDX-License-Identifier: Apache-2.0
//
// Tests plugins that are too old, too new, or broken: testdata/fake_plugin.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callout/pjrt/client.h"
#include "callout/pjrt/plugin.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::StatusIs;
using ::testing::ElementsAre;

Status LoadFake(const std::string& kind) {
  return Plugin::Load(std::string(CALLOUT_FAKE_PLUGINS) + "/callout_fake_plugin_" + kind + ".so").status();
}

TEST(FakePluginTest, AnotherMajorVersionIsRefused) {
  EXPECT_THAT(LoadFake("kOtherMajor"),
              StatusIs(StatusCode::kFailedPrecondition, "has major version 7 of the PJRT C API; expected 0"));
}

TEST(FakePluginTest, AFunctionThatAnOldOneDoesNotHaveIsNamed) {
  EXPECT_THAT(LoadFake("kOld"),
              StatusIs(StatusCode::kUnimplemented, "the plugin (PJRT 0.1) does not have PJRT_Plugin_Attributes"));
}

// The plugin's structs have fields that this library does not know, which get zeros. It then fails for another reason.
TEST(FakePluginTest, ANewerOneGetsLargerStructs) {
  EXPECT_THAT(LoadFake("kNewer"), StatusIs(StatusCode::kFailedPrecondition, "did not ask for the metadata"));
}

TEST(FakePluginTest, OneWithoutTheFfiExtensionIsRefused) {
  EXPECT_THAT(LoadFake("kNoFfi"), StatusIs(StatusCode::kFailedPrecondition, "it has no FFI extension"));
}

TEST(FakePluginTest, ItsErrorsHaveTheirCodeAndText) {
  EXPECT_THAT(LoadFake("kFailsToStart"), StatusIs(StatusCode::kResourceExhausted, "all devices are taken"));
}

TEST(FakePluginTest, AnErrorWithoutACodeIsOneAllTheSame) {
  EXPECT_THAT(LoadFake("kFailsWithoutCode"), StatusIs(StatusCode::kUnknown, "all devices are taken"));
}

TEST(FakePluginTest, AHandlerThatIsSwallowedIsNoticed) {
  EXPECT_THAT(LoadFake("kSwallowsHandlers"), StatusIs(StatusCode::kFailedPrecondition, "did not ask for the metadata"));
}

TEST(FakePluginTest, WhatItThrowsIsAnError) {
  EXPECT_THAT(
      LoadFake("kThrows"),
      StatusIs(StatusCode::kInternal, "the plugin threw an exception in PJRT_Plugin_Initialize: no device at all"));
  EXPECT_THAT(LoadFake("kThrowsAtOnce"), StatusIs(StatusCode::kInternal, "GetPjrtApi threw an exception: it threw"));
}

TEST(FakePluginTest, OneThatDidNotLoadIsTriedAgain) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(LoadFake("kFailsToStart").code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace callout::pjrt
