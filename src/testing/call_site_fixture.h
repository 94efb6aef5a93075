// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of callout.v1.call on runtimes of four FFI versions. Its users link callout_ffi.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/callbacks/registry.h"
#include "core/ffi/handlers.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {

/// The parameter is the runtime's minor version.
class CallSiteTest : public WithLiveCounts<::testing::TestWithParam<int>> {
 protected:
  void SetUp() override {
    WithLiveCounts::SetUp();
    // XLA asks for metadata before anything else.
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_call_instantiate).status, IsOk());
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_call_execute).status, IsOk());
  }
  void TearDown() override {
    EXPECT_EQ(FakeRuntime::live_errors(), 0);
    WithLiveCounts::TearDown();
  }

  /// Binds a callback as "py:test.f" for as long as somebody holds it.
  static std::shared_ptr<FakeCallback> Bind() {
    auto callback = std::make_shared<FakeCallback>("test.f");
    EXPECT_EQ(Registry::Get().Bind("test.f", callback), "py:test.f");
    return callback;
  }
  std::unique_ptr<FakeSite> NewSite() {
    return std::make_unique<FakeSite>(runtime_, &callout_v1_call_instantiate, &callout_v1_call_execute);
  }
  static FrameBuilder Frame() {
    FrameBuilder frame;
    frame.StringAttr("callback", "py:test.f");
    return frame;
  }
  /// Returns the frame of a batched call; see ffi/lanes.h.
  static FrameBuilder LaneFrame(std::vector<int64_t> extents, std::vector<int64_t> masks) {
    return std::move(
        Frame().Int64ArrayAttr("lane_dims", std::move(extents)).Int64ArrayAttr("lane_masks", std::move(masks)));
  }
  /// Returns the code with which a runtime's own error arrives. Runtimes before FFI 0.4 do not pass it.
  static StatusCode ForeignCode(StatusCode code) { return GetParam() >= 4 ? code : StatusCode::kInternal; }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(GetParam());
};

}  // namespace callout::internal
