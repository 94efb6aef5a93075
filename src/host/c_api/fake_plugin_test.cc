// SPDX-License-Identifier: Apache-2.0
//
// Tests attaching to broken plugins: testdata/fake_plugin.cc.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/pjrt/pjrt_abi.h"
#include "testing/c_closures.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout {
namespace {

using internal::StatusIs;
using testdata::Take;

std::string FakePath(const std::string& kind) {
  return std::string(CALLOUT_FAKE_PLUGINS) + "/callout_fake_plugin_" + kind + ".so";
}

Status Attach(const std::string& kind) {
  void* library = dlopen(FakePath(kind).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotFound(dlerror());
  return Take(callout_attach(reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))()));
}

using CApiFakePluginTest = internal::LiveCountTest;

TEST_F(CApiFakePluginTest, AnotherMajorVersionIsRefused) {
  EXPECT_THAT(Attach("kOtherMajor"), StatusIs(StatusCode::kFailedPrecondition,
                                              "the plugin has major version 7 of the PJRT C API; expected 0"));
}

TEST_F(CApiFakePluginTest, OneWithoutTheFfiExtensionIsRefused) {
  EXPECT_THAT(Attach("kNoFfi"), StatusIs(StatusCode::kFailedPrecondition, "it has no FFI extension"));
}

TEST_F(CApiFakePluginTest, AHandlerThatIsSwallowedIsNoticedEachTime) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Attach("kSwallowsHandlers"), StatusIs(StatusCode::kFailedPrecondition, "did not ask for the metadata"));
  }
}

TEST_F(CApiFakePluginTest, ErrorsOfAPluginHaveTheirCodeAndText) {
  callout_plugin* plugin = nullptr;
  EXPECT_THAT(Take(callout_plugin_load(FakePath("kFailsToStart").c_str(), &plugin)),
              StatusIs(StatusCode::kResourceExhausted, "all devices are taken"));
  EXPECT_THAT(Take(callout_plugin_load("/no/such/plugin.so", &plugin)),
              StatusIs(StatusCode::kNotFound, "/no/such/plugin.so"));
  EXPECT_EQ(plugin, nullptr);
}

}  // namespace
}  // namespace callout
