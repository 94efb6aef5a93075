// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of callout.v1.call and callout.v1.check on CUDA. Its users link callout_ffi and set
// CALLOUT_SOFTWARE_GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/callbacks/registry.h"
#include "core/ffi/handlers.h"
#include "testing/cuda_site_fixture.h"
#include "testing/fake_callbacks.h"

namespace callout::internal {

class CudaCallTest : public CudaSiteTest {
 protected:
  void SetUp() override {
    CudaSiteTest::SetUp();
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_cuda_call_instantiate).status, IsOk());
    callback_ = std::make_shared<FakeCallback>("test.f");
    (void)Registry::Get().Bind("test.f", callback_);
    callback_->on_call = &AddOne;
  }
  void TearDown() override {
    callback_.reset();
    CudaSiteTest::TearDown();
  }

  std::unique_ptr<FakeSite> NewSite(int ordinal = 0) {
    return NewSiteOf(&callout_v1_cuda_call_instantiate, &callout_v1_cuda_call_execute, ordinal);
  }
  std::unique_ptr<FakeSite> NewCheckSite(int ordinal = 0) {
    return NewSiteOf(&callout_v1_cuda_check_instantiate, &callout_v1_cuda_check_execute, ordinal);
  }
  static FrameBuilder Frame() {
    FrameBuilder frame;
    frame.StringAttr("callback", "py:test.f");
    return frame;
  }

  std::shared_ptr<FakeCallback> callback_;
};

}  // namespace callout::internal
