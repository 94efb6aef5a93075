// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the tests that define the behaviour of a driver. They run on the software GPU, and on a real driver if
// CALLOUT_TEST_CUDA_DRIVER names one, so the software GPU can be trusted as far as these tests pass on both.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file_io.h"
#include "cuda/driver/kernel.h"
#include "cuda/driver/pinned_pool.h"
#include "cuda/driver/resources.h"
#include "cuda/driver/stream_work.h"
#include "testing/live_counts.h"
#include "testing/load_software_gpu.h"
#include "testing/scale_ptx.h"
#include "testing/status_matchers.h"

namespace callout::internal::cuda {

enum class Subject { kDouble, kReal };

inline constexpr const char* kRealDriver = "CALLOUT_TEST_CUDA_DRIVER";

inline std::vector<Subject> Subjects() {
  if (std::getenv(kRealDriver) == nullptr) return {Subject::kDouble};
  return {Subject::kDouble, Subject::kReal};
}

class DriverConformance : public WithLiveCounts<::testing::TestWithParam<Subject>> {
 protected:
  using Base = WithLiveCounts<::testing::TestWithParam<Subject>>;

  void SetUp() override {
    Base::SetUp();
    const std::string path = GetParam() == Subject::kReal ? std::getenv(kRealDriver) : CALLOUT_SOFTWARE_GPU;
    const auto opened = Driver::Open(path);
    ASSERT_THAT(opened, IsOk());
    driver_ = *opened;
    fake_ = FindSoftwareGpu(path);
    ASSERT_THAT(driver_->Initialize(), IsOk());
    if (fake_ != nullptr) fake_->reset();
    auto device = Device::Retain(*driver_, 0);
    ASSERT_THAT(device, IsOk());
    device_ = std::move(device).value();
    current_ = std::make_unique<ContextScope>(*device_);
    ASSERT_THAT(current_->TakeStatus(), IsOk());
  }

  void TearDown() override {
    current_.reset();
    device_.reset();
    if (fake_ != nullptr) fake_->release();
    PinnedPool::ReleaseIdle();
    Base::TearDown();
    if (fake_ == nullptr) return;
    for (int kind = 0; kind < kSoftwareGpuKindCount; ++kind) {
      EXPECT_EQ(fake_->live(static_cast<SoftwareGpuKind>(kind)), 0) << "left behind, of SoftwareGpuKind " << kind;
    }
  }

  const Driver& driver() const { return *driver_; }
  const Device& device() const { return *device_; }
  /// Returns the number of living objects of a kind, after the reaper has destroyed released ones.
  int64_t Live(SoftwareGpuKind kind) const {
    Reaper::Get().Flush();
    return fake_->live(kind);
  }
  /// Null for a real driver.
  const SoftwareGpuControl* fake() const { return fake_; }

  template <typename T>
  static T Take(Result<T> result) {
    EXPECT_THAT(result, IsOk());
    return std::move(result).value();
  }
  Stream NewStream() const { return Take(CreateStream(device())); }
  DeviceMemory NewDeviceMemory(size_t bytes) const { return Take(AllocateDevice(device(), bytes)); }
  PinnedMemory NewPinned(size_t bytes) const { return Take(AllocatePinned(device(), bytes)); }

  /// Loads the software GPU's image. For a real driver, the image has only `scale`.
  Library NewLibrary() const {
    if (fake() == nullptr) return Take(LoadLibrary(driver(), kScalePtx, "scale.ptx"));
    return Take(LoadLibrary(driver(), Take(ReadFile(CALLOUT_SOFTWARE_GPU_IMAGE, "image")).data(), "kernels.image"));
  }

 private:
  const Driver* driver_ = nullptr;
  const SoftwareGpuControl* fake_ = nullptr;
  std::unique_ptr<const Device> device_;
  std::unique_ptr<ContextScope> current_;
};

inline std::string SubjectName(const ::testing::TestParamInfo<Subject>& info) {
  return info.param == Subject::kDouble ? "Double" : "Real";
}

#define CALLOUT_CUDA_CONFORMANCE(suite) \
  INSTANTIATE_TEST_SUITE_P(Drivers, suite, ::testing::ValuesIn(Subjects()), SubjectName)

#define CALLOUT_NEEDS_DOUBLE(reason) \
  if (fake() == nullptr) GTEST_SKIP() << "for the double only: " << (reason)

}  // namespace callout::internal::cuda
