// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of CUDA handlers on the software GPU. Its users link callout_ffi and set CALLOUT_SOFTWARE_GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/driver/pinned_pool.h"
#include "cuda/driver/resources.h"
#include "cuda/driver/stream_work.h"
#include "testing/fake_runtime.h"
#include "testing/live_counts.h"
#include "testing/load_software_gpu.h"
#include "testing/status_matchers.h"

namespace callout::internal {

/// Has two devices, with a stream each, and arrays in their memory. Checks that none of the driver's objects leaks.
class CudaSiteTest : public WithLiveCounts<::testing::Test> {
 protected:
  static void SetUpTestSuite() { setenv("CALLOUT_CUDA_DRIVER", CALLOUT_SOFTWARE_GPU, 1); }

  void SetUp() override {
    WithLiveCounts::SetUp();
    fake_ = FindSoftwareGpu(CALLOUT_SOFTWARE_GPU);
    ASSERT_NE(fake_, nullptr);
    fake_->set_devices(2);
    const auto driver = cuda::Driver::Get();
    ASSERT_THAT(driver, IsOk());
    for (int i = 0; i < 2; ++i) {
      auto device = cuda::Device::Retain(**driver, i);
      ASSERT_THAT(device, IsOk());
      devices_.push_back(std::move(device).value());
      auto stream = CreateStream(*devices_.back());
      ASSERT_THAT(stream, IsOk());
      streams_.push_back(std::move(stream).value());
    }
  }

  void TearDown() override {
    memory_.clear();
    streams_.clear();
    devices_.clear();
    EXPECT_EQ(FakeRuntime::live_errors(), 0);
    fake_->release();
    cuda::PinnedPool::ReleaseIdle();
    WithLiveCounts::TearDown();
    for (int kind = 0; kind < kSoftwareGpuKindCount; ++kind) {
      EXPECT_EQ(fake_->live(static_cast<SoftwareGpuKind>(kind)), 0) << "left behind, of SoftwareGpuKind " << kind;
    }
  }

  const SoftwareGpuControl* fake() const { return fake_; }
  /// Returns the number of living objects of a kind, after the reaper has destroyed released ones.
  int64_t Live(SoftwareGpuKind kind) const {
    cuda::Reaper::Get().Flush();
    return fake_->live(kind);
  }
  const cuda::Device& device(int ordinal = 0) const { return *devices_.at(static_cast<size_t>(ordinal)); }
  cuda::CUstream stream(int ordinal = 0) const { return streams_.at(static_cast<size_t>(ordinal)).get(); }

  /// Makes a call site on a device.
  std::unique_ptr<FakeSite> NewSiteOf(XLA_FFI_Handler* instantiate, XLA_FFI_Handler* execute, int ordinal = 0) {
    auto site = std::make_unique<FakeSite>(runtime_, instantiate, execute);
    site->device_ordinal = ordinal;
    site->stream = stream(ordinal);
    return site;
  }

  /// Copies values to the device's memory, and returns a buffer there.
  template <typename T = float>
  TestBuffer OnDevice(std::vector<int64_t> dims, const std::vector<T>& values, int ordinal = 0) {
    const size_t bytes = values.size() * sizeof(T);
    auto memory = AllocateDevice(device(ordinal), bytes);
    EXPECT_THAT(memory, IsOk());
    const cuda::ContextScope current(device(ordinal));
    EXPECT_EQ(device().driver().MemcpyHtoDAsync(memory->get(), values.data(), bytes, stream(ordinal)), 0);
    EXPECT_THAT(Synchronize(device(ordinal), stream(ordinal)), IsOk());
    TestBuffer buffer = TestBuffer::At(DTypeOf<T>::value, std::move(dims), reinterpret_cast<void*>(memory->get()));
    memory_.push_back(std::move(memory).value());
    return buffer;
  }

  /// Returns the buffer's values, after all queued work has run.
  template <typename T = float>
  std::vector<T> Read(TestBuffer& buffer, int ordinal = 0) {
    std::vector<T> values(buffer.view().size_bytes / sizeof(T));
    const cuda::ContextScope current(device(ordinal));
    const auto from = reinterpret_cast<cuda::CUdeviceptr>(buffer.view().data);
    EXPECT_EQ(device().driver().MemcpyDtoHAsync(values.data(), from, buffer.view().size_bytes, stream(ordinal)), 0);
    EXPECT_THAT(Synchronize(device(ordinal), stream(ordinal)), IsOk());
    return values;
  }

  /// Captures the work that a call queues on the first device's stream, as XLA does.
  Result<cuda::GraphExec> RecordCall(FakeSite& site, FrameBuilder& frame) {
    const cuda::ContextScope current(device());
    CALLOUT_ASSIGN_OR_RETURN(auto capture, cuda::StreamCapture::Begin(device(), stream()));
    CALLOUT_RETURN_IF_ERROR(site.Execute(frame));
    CALLOUT_ASSIGN_OR_RETURN(const auto graph, capture.End());
    return cuda::Instantiate(device(), graph);
  }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(4);

 private:
  const SoftwareGpuControl* fake_ = nullptr;
  std::vector<std::unique_ptr<const cuda::Device>> devices_;
  std::vector<cuda::Stream> streams_;
  std::vector<cuda::DeviceMemory> memory_;
};

}  // namespace callout::internal
