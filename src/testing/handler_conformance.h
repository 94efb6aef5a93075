// SPDX-License-Identifier: Apache-2.0
//
// The fixture of tests that define a target's behaviour on all platforms. They are built twice: core_test runs them on
// CPUs, with runtimes of four FFI versions, and cuda_driver_test runs them on the software GPU, whose path is
// CALLOUT_SOFTWARE_GPU.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/callbacks/call_statistics.h"
#include "core/callbacks/failures.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "core/ffi/handlers.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"
#include "testing/live_counts.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"

#ifdef CALLOUT_SOFTWARE_GPU
#include "testing/cuda_site_fixture.h"
#endif

namespace callout::internal {

/// CPUs, with a runtime of FFI 0.`kMinor`. Arrays are in the frame's own memory.
template <int kMinor>
class CpuPlatform : public WithLiveCounts<::testing::Test> {
 public:
  static std::string Name() { return "CpuMinor" + std::to_string(kMinor); }

 protected:
  static constexpr Handlers kCall = {.instantiate = &callout_v1_call_instantiate, .execute = &callout_v1_call_execute};
  static constexpr Handlers kTap = {.instantiate = &callout_v1_tap_instantiate, .execute = &callout_v1_tap_execute};
  static constexpr Handlers kCheck = {.execute = &callout_v1_check_execute};

  void TearDown() override {
    EXPECT_EQ(FakeRuntime::live_errors(), 0);
    WithLiveCounts::TearDown();
  }

  std::unique_ptr<FakeSite> NewSiteOf(XLA_FFI_Handler* instantiate, XLA_FFI_Handler* execute, int ordinal) {
    auto site = std::make_unique<FakeSite>(runtime_, instantiate, execute);
    site->device_ordinal = ordinal;
    return site;
  }

  template <typename T = float>
  static TestBuffer OnDevice(std::vector<int64_t> dims, const std::vector<T>& values, int /*ordinal*/ = 0) {
    return TestBuffer::Of<T>(std::move(dims), values);
  }

  template <typename T = float>
  static std::vector<T> Read(const TestBuffer& buffer, int /*ordinal*/ = 0) {
    return buffer.values<T>();
  }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(kMinor);
};

#ifdef CALLOUT_SOFTWARE_GPU
/// Two devices of the software GPU.
class CudaPlatform : public CudaSiteTest {
 public:
  static std::string Name() { return "Cuda"; }

 protected:
  static constexpr Handlers kCall = {.instantiate = &callout_v1_cuda_call_instantiate,
                                     .execute = &callout_v1_cuda_call_execute};
  static constexpr Handlers kTap = {.instantiate = &callout_v1_tap_instantiate,
                                    .execute = &callout_v1_cuda_tap_execute};
  static constexpr Handlers kCheck = {.instantiate = &callout_v1_cuda_check_instantiate,
                                      .execute = &callout_v1_cuda_check_execute};
};

using HandlerPlatforms = ::testing::Types<CudaPlatform>;
#else
using HandlerPlatforms = ::testing::Types<CpuPlatform<2>, CpuPlatform<3>, CpuPlatform<4>, CpuPlatform<5>>;
#endif

/// Binds a callback as "py:test.f", and makes sites that call it, with arrays in their device's memory. A test takes
/// the results from the frame with `Read`.
template <typename Platform>
class HandlerConformance : public Platform {
 protected:
  void SetUp() override {
    ResetStats();
    Platform::SetUp();
    for (const Handlers& handlers : {Platform::kCall, Platform::kTap, Platform::kCheck}) {
      for (XLA_FFI_Handler* handler : {handlers.instantiate, handlers.execute}) {  // XLA asks for metadata first.
        if (handler == nullptr) continue;
        ASSERT_THAT(this->runtime_.QueryMetadata(handler).status, IsOk());
      }
    }
    callback_ = std::make_shared<FakeCallback>("test.f");
    EXPECT_EQ(Registry::Get().Bind("test.f", callback_), "py:test.f");
  }

  void TearDown() override {
    callback_.reset();
    Barrier();
    (void)Delivery::Get().TakeErrors();
    Delivery::Get().Park();  // Releases the memory of the rings, too.
    Platform::TearDown();
  }

  static void Barrier() { ASSERT_THAT(Delivery::Get().Drain(kForever), ::testing::IsEmpty()); }

  static FrameBuilder Frame() {
    FrameBuilder frame;
    frame.StringAttr("callback", "py:test.f");
    return frame;
  }

  std::unique_ptr<FakeSite> NewSite(const Handlers& handlers, int ordinal = 0) {
    return this->NewSiteOf(handlers.instantiate, handlers.execute, ordinal);
  }
  std::unique_ptr<FakeSite> NewCall(int ordinal = 0) { return NewSite(Platform::kCall, ordinal); }
  std::unique_ptr<FakeSite> NewTap(int ordinal = 0) { return NewSite(Platform::kTap, ordinal); }

  /// Runs a program with one call of these handlers.
  Status Run(const Handlers& handlers, FrameBuilder& frame, int ordinal = 0) {
    const auto site = NewSite(handlers, ordinal);
    if (handlers.instantiate != nullptr) CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }
  Status RunCall(FrameBuilder& frame, int ordinal = 0) { return Run(Platform::kCall, frame, ordinal); }
  Status RunTap(FrameBuilder& frame, int ordinal = 0) { return Run(Platform::kTap, frame, ordinal); }
  Status RunCheck(FrameBuilder& frame, int ordinal = 0) { return Run(Platform::kCheck, frame, ordinal); }

  /// Returns the error that a deferred call has given this number.
  static Status Failure(int32_t number) { return FindFailure(number).value_or(OkStatus()); }

  std::shared_ptr<FakeCallback> callback_;
};

/// Names the tests of each platform.
struct PlatformNames {
  template <typename Platform>
  static std::string GetName(int) {
    return Platform::Name();
  }
};

}  // namespace callout::internal
