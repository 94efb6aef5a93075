// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/driver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/base/file_io.h"
#include "cuda/driver/kernel.h"
#include "cuda/driver/resources.h"
#include "testing/load_software_gpu.h"
#include "testing/status_matchers.h"

namespace callout::internal::cuda {
namespace {

/// Copies the software GPU's library for each test: the loader opens a file once, and only a newly opened library reads
/// the environment.
class DriverTest : public ::testing::Test {
 protected:
  std::string NewDouble() {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                                       ("software_gpu_" + std::to_string(getpid()) + "_" + std::to_string(copies_++));
    std::filesystem::copy_file(CALLOUT_SOFTWARE_GPU, path, std::filesystem::copy_options::overwrite_existing);
    made_.push_back(path);
    return path;
  }
  void Set(const char* variable, const char* value) {
    setenv(variable, value, 1);
    set_.push_back(variable);
  }
  void TearDown() override {
    for (const auto& path : made_) std::filesystem::remove(path);
    for (const char* variable : set_) unsetenv(variable);
  }

 private:
  static inline int copies_ = 0;
  std::vector<std::filesystem::path> made_;
  std::vector<const char*> set_;
};

TEST_F(DriverTest, NoDriverIsAStatusThatNamesThePathAndTheReason) {
  const auto driver = Driver::Open("/no/such/libcuda.so.1");
  EXPECT_THAT(driver, StatusIs(StatusCode::kNotFound,
                               "there is no CUDA driver: cannot load shared library '/no/such/libcuda.so.1': "));
  EXPECT_THAT(driver, StatusIs(StatusCode::kNotFound, "No such file"));
}

TEST_F(DriverTest, ALibraryThatIsNoDriverIsRefused) {
  EXPECT_THAT(Driver::Open("libm.so.6"),
              StatusIs(StatusCode::kFailedPrecondition, "'libm.so.6' is none: it has no cuDriverGetVersion"));
}

TEST_F(DriverTest, AnOldDriverIsRefusedWithItsVersion) {
  Set("CALLOUT_SOFTWARE_GPU_VERSION", "11080");
  EXPECT_THAT(Driver::Open(NewDouble()),
              StatusIs(StatusCode::kFailedPrecondition, "is too old: expected CUDA 12.0 or newer, got 11.8"));
}

TEST_F(DriverTest, ADriverThatDoesNotAnswerIsRefused) {
  Set("CALLOUT_SOFTWARE_GPU_FAIL", "cuDriverGetVersion:1:803");
  EXPECT_THAT(Driver::Open(NewDouble()),
              StatusIs(StatusCode::kUnavailable, "cuDriverGetVersion failed with CUDA error 803"));
}

TEST_F(DriverTest, EveryMissingFunctionIsNamed) {
  Set("CALLOUT_SOFTWARE_GPU_HIDE", "cuMemAlloc,cuLaunchKernel");
  EXPECT_THAT(Driver::Open(NewDouble()),
              StatusIs(StatusCode::kFailedPrecondition, "(13.0) lacks cuMemAlloc, cuLaunchKernel"));
}

TEST_F(DriverTest, NewerFunctionsMayBeMissing) {
  Set("CALLOUT_SOFTWARE_GPU_VERSION", "12030");
  const auto driver = Driver::Open(NewDouble());
  ASSERT_THAT(driver, IsOk());
  EXPECT_EQ((*driver)->version(), 12030);
  EXPECT_EQ((*driver)->FuncGetParamInfo, nullptr);
  EXPECT_EQ((*driver)->FuncLoad, nullptr);
  EXPECT_EQ((*driver)->KernelGetParamInfo, nullptr);
  EXPECT_NE((*driver)->StreamWriteValue32, nullptr);
}

TEST_F(DriverTest, ADriverWithoutDevicesSaysSoWhenItIsInitialized) {
  Set("CALLOUT_SOFTWARE_GPU_DEVICES", "0");
  const auto driver = Driver::Open(NewDouble());
  ASSERT_THAT(driver, IsOk());
  EXPECT_THAT(
      (*driver)->Initialize(),
      StatusIs(StatusCode::kUnavailable,
               ::testing::StrEq("cuInit failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected")));
  EXPECT_THAT(DeviceCount(**driver), StatusIs(StatusCode::kFailedPrecondition, "CUDA_ERROR_NOT_INITIALIZED (3)"));
}

TEST_F(DriverTest, DevicesHaveTheirOwnMemoryStreamsAndFunctions) {
  Set("CALLOUT_SOFTWARE_GPU_DEVICES", "2");
  const auto opened = Driver::Open(NewDouble());
  ASSERT_THAT(opened, IsOk());
  const Driver& driver = **opened;
  ASSERT_THAT(driver.Initialize(), IsOk());
  EXPECT_THAT(DeviceCount(driver), IsOkAndHolds(2));
  const auto first = Device::Retain(driver, 0);
  const auto second = Device::Retain(driver, 1);
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(Device::Retain(driver, 2), StatusIs(StatusCode::kInvalidArgument,
                                                  "cuDeviceGet on device 2 failed: CUDA_ERROR_INVALID_DEVICE (101)"));
  const auto image = ReadFile(CALLOUT_SOFTWARE_GPU_IMAGE, "image");
  ASSERT_THAT(image, IsOk());
  const auto library = LoadLibrary(driver, image.value().data(), "kernels.image");
  ASSERT_THAT(library, IsOk());
  const auto kernel = FindKernel(driver, *library, "coordinates");
  const auto function = FindFunction(**second, *kernel, "coordinates");
  const auto memory = AllocateDevice(**first, 8);
  const auto streams = std::pair(CreateStream(**first), CreateStream(**second));
  ASSERT_THAT(streams.second, IsOk());
  CUdeviceptr out = memory.value().get();
  void* parameters[] = {&out};
  const ContextScope scope(**second);
  EXPECT_THAT(Launch(**second, *function, {}, streams.first.value().get(), parameters, "coordinates"),
              StatusIs(StatusCode::kInvalidArgument, "on device 1 failed: CUDA_ERROR_INVALID_HANDLE (400)"));
  EXPECT_THAT(Launch(**second, *function, {}, streams.second.value().get(), parameters, "coordinates"), IsOk());
  EXPECT_THAT(Synchronize(**second, streams.second.value().get()),
              StatusIs(StatusCode::kInternal, "cuStreamSynchronize on device 1 failed: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(Synchronize(**first, streams.first.value().get()), IsOk()) << "the other device is as it was";
}

// XLA passes such ordinals to handlers, too.
TEST_F(DriverTest, OrdinalsCountTheDevicesThatTheProcessSees) {
  Set("CALLOUT_SOFTWARE_GPU_DEVICES", "3");
  Set("CUDA_VISIBLE_DEVICES", "2,0,7,1");  // CUDA ignores the list from the unknown number 7 on.
  const auto opened = Driver::Open(NewDouble());
  ASSERT_THAT(opened, IsOk());
  const Driver& driver = **opened;
  ASSERT_THAT(driver.Initialize(), IsOk());
  EXPECT_THAT(DeviceCount(driver), IsOkAndHolds(2));
  EXPECT_EQ(Device::Retain(driver, 1).value()->ordinal(), 1);
  EXPECT_EQ(DescribeDevice(driver, 0).value().pci_id, "0000:03:00.0");
  EXPECT_EQ(DescribeDevice(driver, 1).value().pci_id, "0000:01:00.0");
}

TEST_F(DriverTest, IsOpenedOnceByAllThreads) {
  const std::string path = NewDouble();
  constexpr int kThreads = 8;
  const Driver* found[kThreads] = {};
  std::vector<std::thread> threads;
  for (auto& driver : found) {
    threads.emplace_back([&driver, &path] {
      if (const auto opened = Driver::Open(path); opened.ok()) driver = *opened;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Driver* driver : found) EXPECT_EQ(driver, found[0]);
  ASSERT_NE(found[0], nullptr);
  EXPECT_EQ(FindSoftwareGpu(path)->calls("cuDriverGetVersion"), 1);
}

TEST_F(DriverTest, OfTheProcessIsTheOneOfTheEnvironmentAndInitialized) {
  Set("CALLOUT_CUDA_DRIVER", CALLOUT_SOFTWARE_GPU);
  const auto driver = Driver::Get();
  ASSERT_THAT(driver, IsOk());
  EXPECT_EQ((*driver)->path(), CALLOUT_SOFTWARE_GPU);
  EXPECT_THAT(DeviceCount(**driver), IsOkAndHolds(1));
  Set("CALLOUT_CUDA_DRIVER", "/another");
  EXPECT_EQ(*Driver::Get(), *driver) << "it is chosen once";
  EXPECT_EQ(Driver::DefaultPath(), "/another");
  unsetenv("CALLOUT_CUDA_DRIVER");
  EXPECT_EQ(Driver::DefaultPath(), "libcuda.so.1");
}

TEST_F(DriverTest, ErrorsSayWhatWasAttemptedAndWhere) {
  const auto opened = Driver::Open(CALLOUT_SOFTWARE_GPU);
  ASSERT_THAT(opened, IsOk());
  const Driver& driver = **opened;
  EXPECT_THAT(driver.Check(CUDA_SUCCESS, {.function = "cuLaunchKernel"}), IsOk());
  EXPECT_THAT(driver.Check(CUDA_ERROR_INVALID_VALUE, {.function = "cuLaunchKernel", .subject = "'scale'", .device = 0}),
              StatusIs(StatusCode::kInvalidArgument,
                       ::testing::StrEq("cuLaunchKernel of 'scale' on device 0 failed: CUDA_ERROR_INVALID_VALUE (1): "
                                        "invalid argument")));
  EXPECT_THAT(driver.Check(4242, {.function = "cuInit"}),
              StatusIs(StatusCode::kInternal, ::testing::StrEq("cuInit failed: CUDA error (4242)")));
}

TEST_F(DriverTest, ErrorsHaveTheCodesThatTheyMean) {
  const auto opened = Driver::Open(CALLOUT_SOFTWARE_GPU);
  ASSERT_THAT(opened, IsOk());
  const std::pair<CUresult, StatusCode> expected[] = {
      {CUDA_ERROR_OUT_OF_MEMORY, StatusCode::kResourceExhausted},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, StatusCode::kFailedPrecondition},
      {CUDA_ERROR_INVALID_IMAGE, StatusCode::kInvalidArgument},
      {CUDA_ERROR_NOT_FOUND, StatusCode::kNotFound},
      {CUDA_ERROR_ILLEGAL_ADDRESS, StatusCode::kInternal},
      {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, StatusCode::kResourceExhausted},
      {CUDA_ERROR_LAUNCH_TIMEOUT, StatusCode::kDeadlineExceeded},
      {CUDA_ERROR_NOT_PERMITTED, StatusCode::kPermissionDenied},
      {CUDA_ERROR_NOT_SUPPORTED, StatusCode::kUnimplemented},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, StatusCode::kFailedPrecondition},
      {CUDA_ERROR_UNKNOWN, StatusCode::kInternal},
  };
  for (const auto& [result, code] : expected) {
    EXPECT_THAT((*opened)->Check(result, {.function = "cuInit"}), StatusIs(code, "(" + std::to_string(result) + ")"));
  }
}

}  // namespace
}  // namespace callout::internal::cuda
