// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of callout.v1.tap on the software GPU. Its users link callout_ffi and set CALLOUT_SOFTWARE_GPU.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/callbacks/call_statistics.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "core/ffi/handlers.h"
#include "testing/cuda_site_fixture.h"
#include "testing/fake_callbacks.h"
#include "testing/spin.h"

namespace callout::internal {

class CudaTapTest : public CudaSiteTest {
 protected:
  void SetUp() override {
    ResetStats();
    CudaSiteTest::SetUp();
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_tap_instantiate).status, IsOk());
  }

  void TearDown() override {
    fake()->release();
    Barrier();
    (void)Delivery::Get().TakeErrors();
    EXPECT_THAT(Delivery::Get().Configure({}), IsOk());
    Delivery::Get().Park();  // Releases the memory of the rings, too.
    CudaSiteTest::TearDown();
  }

  static void Barrier() { ASSERT_THAT(Delivery::Get().Drain(kForever), ::testing::IsEmpty()); }

  /// Returns the records of device `ordinal` that are on their way, to all workers.
  static UpstreamStats UnderWay(int32_t ordinal = 0) {
    UpstreamStats sum;
    for (const NamedQueueStats& queue : Delivery::Get().QueueStatistics()) {
      if (queue.device_ordinal != ordinal) continue;
      sum.records += queue.upstream.records;
      sum.bytes += queue.upstream.bytes;
      sum.blocked += queue.upstream.blocked;
    }
    return sum;
  }

  static std::shared_ptr<FakeCallback> Bind(const std::string& name = "test.tap", Worker worker = Worker::kNative) {
    auto callback = std::make_shared<FakeCallback>(name, worker);
    EXPECT_EQ(Registry::Get().Bind(name, callback), "py:" + name);
    return callback;
  }

  /// Appends the first number of each record to `values`.
  template <typename T>
  static void Collect(FakeCallback& callback, std::vector<T>& values) {
    callback.on_deliver = [&values](const Record& record) {
      values.push_back(*static_cast<const T*>(record.buffers[0].data));
      return OkStatus();
    };
  }

  static FrameBuilder Frame(const std::string& name = "test.tap") {
    FrameBuilder frame;
    frame.StringAttr("callback", "py:" + name);
    return frame;
  }

  std::unique_ptr<FakeSite> NewTap(int ordinal = 0) {
    return NewSiteOf(&callout_v1_tap_instantiate, &callout_v1_cuda_tap_execute, ordinal);
  }

  /// Makes an instantiated call site for the frame.
  std::unique_ptr<FakeSite> NewTap(FrameBuilder& frame, int ordinal = 0) {
    auto site = NewTap(ordinal);
    EXPECT_THAT(site->Instantiate(frame), IsOk());
    return site;
  }

  /// Makes an array of bytes in the device's memory, each of them `value`.
  TestBuffer BytesOnDevice(size_t bytes, uint8_t value = 0, int ordinal = 0) {
    return OnDevice<uint8_t>({static_cast<int64_t>(bytes)}, std::vector<uint8_t>(bytes, value), ordinal);
  }
};

}  // namespace callout::internal
