// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of callout.v1.buffer on the software GPU. Its users link callout_ffi and set
// CALLOUT_SOFTWARE_GPU.
#pragma once

#include "core/callbacks/registry.h"
#include "testing/fake_callbacks.h"
#include "testing/image_site_fixture.h"

namespace callout::internal {

class BufferSiteTest : public ImageSiteTest {
 protected:
  /// A callback that takes device memory.
  class DeviceCallback final : public FakeCallback {
   public:
    using FakeCallback::FakeCallback;
    bool takes_device_memory() const override { return true; }
  };

  void SetUp() override {
    ImageSiteTest::SetUp();
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_cuda_buffer_instantiate).status, IsOk());
  }

  /// Binds a callback as "py:test.f" for as long as somebody holds it.
  static std::shared_ptr<DeviceCallback> Bind() {
    auto callback = std::make_shared<DeviceCallback>("test.f");
    EXPECT_EQ(Registry::Get().Bind("test.f", callback), "py:test.f");
    return callback;
  }

  /// Makes a call site on a device.
  std::unique_ptr<FakeSite> NewBufferSite(int ordinal = 0, XLA_FFI_Handler* execute = &callout_v1_cuda_buffer_execute) {
    auto site = std::make_unique<FakeSite>(runtime_, &callout_v1_cuda_buffer_instantiate, execute);
    site->device_ordinal = ordinal;
    site->stream = stream(ordinal);
    return site;
  }

  static FrameBuilder BufferFrame() {
    FrameBuilder frame;
    frame.StringAttr("callback", "py:test.f");
    return frame;
  }

  /// Queues a copy of argument 0 to result 0 on the call's stream.
  Status CopyOver(const callout_call& call) const {
    const auto to = reinterpret_cast<cuda::CUdeviceptr>(call.results[0].data);
    const auto from = reinterpret_cast<cuda::CUdeviceptr>(call.args[0].data);
    const auto on = static_cast<cuda::CUstream>(call.stream);
    return device(call.device_ordinal)
        .Check(device().driver().MemcpyDtoDAsync(to, from, call.args[0].size_bytes, on), "cuMemcpyDtoDAsync");
  }
};

}  // namespace callout::internal
