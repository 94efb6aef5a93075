// SPDX-License-Identifier: Apache-2.0
//
// Visits of a stream's data to the host: what is awaited, what is not, and every call of the driver failing once.
#include "cuda/driver/staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "testing/cuda_conformance.h"
#include "testing/spin.h"

namespace callout::internal::cuda {
namespace {

class StagingTest : public DriverConformance {
 protected:
  static void SetUpTestSuite() { setenv("CALLOUT_CUDA_DRIVER", CALLOUT_SOFTWARE_GPU, 1); }

  void SetUp() override {
    DriverConformance::SetUp();
    pool_ = Take(PinnedPool::On(0));
    stream_ = NewStream();
    memory_ = NewDeviceMemory(sizeof(int32_t));
  }
  void TearDown() override {
    memory_.Reset();
    stream_.Reset();
    pool_.reset();
    DriverConformance::TearDown();
  }

  void ForgetMemory() {
    pool_.reset();
    PinnedPool::ReleaseIdle();
    pool_ = Take(PinnedPool::On(0));
  }

  Result<Staging> Begin() { return Staging::Begin(*pool_, stream_.get(), sizeof(int32_t), "'test'"); }

  void QueueValue(unsigned char byte) {
    ASSERT_EQ(driver().MemsetD8Async(memory_.get(), byte, sizeof(int32_t), stream_.get()), CUDA_SUCCESS);
  }

  /// Adds one to the number on the device, on the host.
  Status Visit() {
    CALLOUT_ASSIGN_OR_RETURN(Staging staging, Begin());
    CALLOUT_RETURN_IF_ERROR(staging.ToHost(staging.data(), memory_.get(), sizeof(int32_t)));
    CALLOUT_RETURN_IF_ERROR(staging.Wait());
    int32_t number;
    std::memcpy(&number, staging.data(), sizeof(number));
    ++number;
    std::memcpy(staging.data(), &number, sizeof(number));
    return staging.ToDevice(memory_.get(), staging.data(), sizeof(int32_t));
  }

  int32_t Number() {
    int32_t number = -1;
    EXPECT_EQ(driver().MemcpyDtoHAsync(&number, memory_.get(), sizeof(number), stream_.get()), CUDA_SUCCESS);
    EXPECT_THAT(Synchronize(device(), stream_.get()), IsOk());
    return number;
  }

  std::shared_ptr<PinnedPool> pool_;
  Stream stream_;
  DeviceMemory memory_;
};

TEST_P(StagingTest, DataComesAndGoes) {
  QueueValue(0);
  for (int i = 0; i < 100; ++i) ASSERT_THAT(Visit(), IsOk());
  EXPECT_EQ(Number(), 100);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
}

TEST_P(StagingTest, WaitEndsWhenWhatCameBeforeHasRun) {
  fake()->hold();
  QueueValue(1);
  std::optional<int32_t> seen;
  std::thread visitor([&] {
    const ContextScope current(device());
    Staging staging = Take(Begin());
    EXPECT_THAT(staging.ToHost(staging.data(), memory_.get(), sizeof(int32_t)), IsOk());
    EXPECT_THAT(staging.Wait(), IsOk());
    std::memcpy(&seen.emplace(), staging.data(), sizeof(int32_t));
  });
  // Beyond the time for which it looks itself.
  SpinUntil([&] { return fake()->calls("cuEventSynchronize") > 0; });
  fake()->release();
  visitor.join();
  EXPECT_EQ(seen, 0x01010101);
}

TEST_P(StagingTest, WayOutIsNotAwaited) {
  QueueValue(0);
  {
    Staging staging = Take(Begin());
    const int32_t number = 7;
    ASSERT_THAT(staging.Wait(), IsOk());
    std::memcpy(staging.data(), &number, sizeof(number));
    fake()->hold();
    ASSERT_THAT(staging.ToDevice(memory_.get(), staging.data(), sizeof(number)), IsOk());
  }
  // The next one gets the same memory, behind that copy.
  Staging next = Take(Begin());
  fake()->release();
  ASSERT_THAT(next.Wait(), IsOk());
  std::memset(next.data(), 0xff, sizeof(int32_t));
  EXPECT_EQ(Number(), 7);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
}

// Where streams cannot write, events are asked.
TEST_P(StagingTest, DataComesAndGoesWithoutWritesOfStreams) {
  QueueValue(0);
  fake()->fail("cuStreamWriteValue32", 1, CUDA_ERROR_NOT_SUPPORTED);
  for (int i = 0; i < 10; ++i) ASSERT_THAT(Visit(), IsOk());
  EXPECT_EQ(Number(), 10);
  EXPECT_EQ(fake()->calls("cuStreamWriteValue32"), 1);
  EXPECT_GE(fake()->calls("cuEventQuery"), 10);
}

TEST_P(StagingTest, NobodyAsksTheDriverWhereStreamsWrite) {
  QueueValue(0);
  for (int i = 0; i < 10; ++i) ASSERT_THAT(Visit(), IsOk());
  EXPECT_EQ(fake()->calls("cuEventQuery"), 0);
  EXPECT_EQ(fake()->calls("cuStreamWriteValue32"), 10);
}

// A recording in the mode that permits nothing unsafe in any thread, as another library may make.
class GlobalRecording {
 public:
  GlobalRecording(const Driver& driver, CUstream stream) : driver_(driver), stream_(stream) {
    EXPECT_EQ(driver_.StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  CUresult End() {
    CUgraph graph = nullptr;
    const CUresult ended = driver_.StreamEndCapture(stream_, &graph);
    if (graph != nullptr) static_cast<void>(driver_.GraphDestroy(graph));
    return ended;
  }

 private:
  const Driver& driver_;
  CUstream stream_;
};

TEST_P(StagingTest, RecordingsOfOthersSurviveALongWait) {
  QueueValue(0);
  ASSERT_THAT(Visit(), IsOk());
  const Stream others = NewStream();
  GlobalRecording recording(driver(), others.get());
  fake()->hold();
  std::thread visitor([&] {
    const ContextScope current(device());
    EXPECT_THAT(Visit(), IsOk());
  });
  SpinUntil([&] { return fake()->calls("cuEventSynchronize") > 0; });
  fake()->release();
  visitor.join();
  EXPECT_EQ(recording.End(), CUDA_SUCCESS);
  EXPECT_EQ(Number(), 2);
}

TEST_P(StagingTest, RecordingsOfOthersSurviveEventsThatAreAskedAndMemoryThatIsPinned) {
  QueueValue(0);
  fake()->fail("cuStreamWriteValue32", 1, CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_THAT(Visit(), IsOk());
  const Stream others = NewStream();
  GlobalRecording recording(driver(), others.get());
  std::thread visitor([&] {
    const ContextScope current(device());
    EXPECT_THAT(Visit(), IsOk());
    EXPECT_THAT(Staging::Begin(*pool_, stream_.get(), 1 << 20, "'large'"), IsOk());
    EXPECT_THAT(Synchronize(device(), stream_.get()), IsOk());
  });
  visitor.join();
  EXPECT_EQ(recording.End(), CUDA_SUCCESS);
  EXPECT_EQ(Number(), 2);
}

TEST_P(StagingTest, NothingIsCopiedForNoBytes) {
  Staging staging = Take(Staging::Begin(*pool_, stream_.get(), 0, "'test'"));
  EXPECT_THAT(staging.ToHost(staging.data(), 0, 0), IsOk());
  EXPECT_THAT(staging.ToDevice(0, staging.data(), 0), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync") + fake()->calls("cuMemcpyHtoDAsync"), 0);
  EXPECT_THAT(staging.Wait(), IsOk());
}

TEST_P(StagingTest, EachCallOfTheDriverThatFailsIsNamed) {
  QueueValue(0);
  for (const char* function : {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuEventCreate", "cuMemcpyDtoHAsync",
                               "cuStreamWriteValue32", "cuMemcpyHtoDAsync", "cuStreamWaitEvent"}) {
    if (function != std::string("cuStreamWaitEvent")) ForgetMemory();
    fake()->fail(function, 1, CUDA_ERROR_UNKNOWN);
    Status failed = Visit();
    EXPECT_THAT(failed, StatusIs(StatusCode::kInternal, std::string(function))) << function;
    EXPECT_NE(failed.message().find("'test'"), std::string_view::npos) << failed.message();
    EXPECT_THAT(Visit(), IsOk()) << "after " << function;
  }
}

TEST_P(StagingTest, EachCallThatFailsIsNamedWithoutWritesOfStreams) {
  QueueValue(0);
  fake()->fail("cuStreamWriteValue32", 1, CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_THAT(Visit(), IsOk());
  for (const char* function : {"cuEventRecord", "cuEventQuery"}) {
    fake()->fail(function, 1, CUDA_ERROR_UNKNOWN);
    Status failed = Visit();
    EXPECT_THAT(failed, StatusIs(StatusCode::kInternal, std::string(function) + " of 'test'")) << function;
    EXPECT_THAT(Visit(), IsOk()) << "after " << function;
  }
}

TEST_P(StagingTest, LongWaitThatFailsIsNamed) {
  fake()->hold();
  Staging staging = Take(Begin());
  ASSERT_THAT(staging.ToHost(staging.data(), memory_.get(), sizeof(int32_t)), IsOk());
  fake()->fail("cuEventSynchronize", 1, CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_THAT(staging.Wait(), StatusIs(StatusCode::kDeadlineExceeded,
                                       "cuEventSynchronize of 'test' on device 0 failed: CUDA_ERROR_LAUNCH_TIMEOUT"));
  fake()->release();
}

TEST_P(StagingTest, CopyWhoseEndNoEventTellsIsAwaited) {
  QueueValue(0);
  {
    Staging staging = Take(Begin());
    const int32_t number = 1;
    ASSERT_THAT(staging.Wait(), IsOk());
    std::memcpy(staging.data(), &number, sizeof(number));
    ASSERT_THAT(staging.ToDevice(memory_.get(), staging.data(), sizeof(number)), IsOk());
    fake()->fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
  }
  EXPECT_EQ(fake()->calls("cuStreamSynchronize"), 1);
  EXPECT_EQ(Number(), 1);
}

TEST_P(StagingTest, BrokenDeviceIsAnErrorAndNothingWaitsForIt) {
  Staging staging = Take(Begin());
  fake()->fail("cuMemsetD8Async", 1, CUDA_ERROR_ILLEGAL_ADDRESS);  // stays
  EXPECT_EQ(driver().MemsetD8Async(memory_.get(), 0, sizeof(int32_t), stream_.get()), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(staging.ToHost(staging.data(), memory_.get(), sizeof(int32_t)),
              StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(staging.Wait(), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(Visit(), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

INSTANTIATE_TEST_SUITE_P(Double, StagingTest, ::testing::Values(Subject::kDouble), SubjectName);

}  // namespace
}  // namespace callout::internal::cuda
