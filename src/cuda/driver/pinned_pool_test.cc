// SPDX-License-Identifier: Apache-2.0
//
// Tests of the pool of pinned memory: when blocks are reused, how many are kept, and what happens when there is no
// memory.
#include "cuda/driver/pinned_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "testing/cuda_conformance.h"
#include "testing/spin.h"

namespace callout::internal::cuda {
namespace {

class PinnedPoolTest : public DriverConformance {
 protected:
  static void SetUpTestSuite() { setenv("CALLOUT_CUDA_DRIVER", CALLOUT_SOFTWARE_GPU, 1); }

  static std::shared_ptr<PinnedPool> Pool() { return Take(PinnedPool::On(0)); }
  static constexpr size_t kSmallBound = 64 << 10;
  std::unique_ptr<PinnedPool> SmallPool() {
    return std::make_unique<PinnedPool>(Take(Device::Retain(driver(), 0)), kSmallBound);
  }
  int allocated() const { return fake()->calls("cuMemHostAlloc"); }
};

TEST_P(PinnedPoolTest, BlockIsReused) {
  const auto pool = Pool();
  PinnedBlock block = Take(pool->Take(5000));
  EXPECT_GE(block.bytes, 5000U);
  char* const data = block.data();
  pool->GiveBack(std::move(block));
  EXPECT_EQ(pool->kept_bytes(), 5U << 10);
  PinnedBlock again = Take(pool->Take(4500));
  EXPECT_EQ(again.data(), data);
  EXPECT_EQ(pool->kept_bytes(), 0U);
  EXPECT_EQ(allocated(), 1);
  pool->GiveBack(std::move(again));
}

TEST_P(PinnedPoolTest, BlockOfAnotherSizeIsNot) {
  const auto pool = Pool();
  pool->GiveBack(Take(pool->Take(1 << 20)));
  pool->GiveBack(Take(pool->Take(1)));
  EXPECT_EQ(allocated(), 2);
}

TEST_P(PinnedPoolTest, BlockThatACopyUsesIsNotReused) {
  const auto pool = Pool();
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(64);
  PinnedBlock block = Take(pool->Take(64));
  char* const data = block.data();
  fake()->hold();
  ASSERT_EQ(driver().MemcpyHtoDAsync(memory.get(), data, 64, stream.get()), CUDA_SUCCESS);
  ASSERT_EQ(driver().EventRecord(block.event.get(), stream.get()), CUDA_SUCCESS);
  block.in_use = true;
  pool->GiveBack(std::move(block));
  PinnedBlock other = Take(pool->Take(64));
  EXPECT_NE(other.data(), data);
  fake()->release();
  ASSERT_THAT(Synchronize(device(), stream.get()), IsOk());
  PinnedBlock first = Take(pool->Take(64));
  EXPECT_EQ(first.data(), data);
  EXPECT_FALSE(first.in_use);
  pool->GiveBack(std::move(other));
  pool->GiveBack(std::move(first));
}

TEST_P(PinnedPoolTest, EndWaitsForTheCopies) {
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(64);
  {
    const auto pool = Pool();
    PinnedBlock block = Take(pool->Take(64));
    ASSERT_EQ(driver().MemcpyHtoDAsync(memory.get(), block.data(), 64, stream.get()), CUDA_SUCCESS);
    ASSERT_EQ(driver().EventRecord(block.event.get(), stream.get()), CUDA_SUCCESS);
    block.in_use = true;
    pool->GiveBack(std::move(block));
  }
  PinnedPool::ReleaseIdle();
  EXPECT_EQ(fake()->calls("cuEventSynchronize"), 1);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 0);
}

TEST_P(PinnedPoolTest, TheOldestGoBackToTheDriverBeyondTheBound) {
  const auto pool = SmallPool();
  constexpr size_t kThird = 20 << 10;  // Three blocks fit.
  std::vector<PinnedBlock> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(Take(pool->Take(kThird)));
  const char* const last = blocks.back().data();
  for (PinnedBlock& block : blocks) pool->GiveBack(std::move(block));
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 3);
  EXPECT_EQ(pool->kept_bytes(), 3 * kThird);
  std::vector<PinnedBlock> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(Take(pool->Take(kThird)));
  EXPECT_EQ(kept.back().data(), last) << "the newest, lent last";
  for (PinnedBlock& block : kept) pool->GiveBack(std::move(block));
}

TEST_P(PinnedPoolTest, BlockBeyondTheBoundPushesNoOtherOut) {
  const auto pool = SmallPool();
  pool->GiveBack(Take(pool->Take(64)));
  const size_t kept = pool->kept_bytes();
  PinnedBlock large = Take(pool->Take(kSmallBound + 1));
  EXPECT_EQ(large.bytes, kSmallBound + 64) << "no more than the alignment asks for";
  pool->GiveBack(std::move(large));
  EXPECT_EQ(pool->kept_bytes(), kept);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
}

TEST_P(PinnedPoolTest, NoMoreIsPinnedThanThreadsHoldAtOnce) {
  constexpr int kThreads = 8;
  const auto pool = Pool();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&pool] {
      for (int round = 0; round < 200; ++round) pool->GiveBack(Take(pool->Take(64)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(allocated(), kThreads);
}

TEST_P(PinnedPoolTest, WhatIsKeptIsGivenUpWhereThereIsNoMoreToPin) {
  const auto pool = Pool();
  pool->GiveBack(Take(pool->Take(1 << 20)));
  fake()->fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  PinnedBlock block = Take(pool->Take(64));
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
  EXPECT_EQ(pool->kept_bytes(), 0U);
  pool->GiveBack(std::move(block));
}

TEST_P(PinnedPoolTest, ErrorsOfTheDriverAreTold) {
  const auto pool = Pool();
  fake()->fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  fake()->fail("cuMemHostAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(pool->Take(5000).status(),
              StatusIs(StatusCode::kResourceExhausted,
                       "cuMemHostAlloc of 5184 bytes on device 0 failed: CUDA_ERROR_OUT_OF_MEMORY (2)"));
  fake()->fail("cuEventCreate", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(pool->Take(64).status(), StatusIs(StatusCode::kInternal, "cuEventCreate on device 0 failed"));
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 0);
}

TEST_P(PinnedPoolTest, ReservedBlockIsKeptBeyondTheBoundAsLongAsItIsReserved) {
  const auto pool = SmallPool();
  constexpr size_t kLarge = kSmallBound * 3;
  pool->Reserve(kLarge);
  for (int call = 0; call < 3; ++call) {
    ASSERT_THAT(pool->Prepare(kLarge), IsOk());
    pool->GiveBack(Take(pool->Take(kLarge)));
  }
  EXPECT_EQ(allocated(), 1) << "each call pins no memory of its own";
  pool->Unreserve(kLarge);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 0);
  EXPECT_EQ(pool->kept_bytes(), 0U);
}

TEST_P(PinnedPoolTest, ReservedBlocksOfTwoSizesAreBothKept) {
  const auto pool = SmallPool();
  for (const size_t times : {2, 3}) pool->Reserve(times * kSmallBound);
  for (int call = 0; call < 3; ++call) {
    for (const size_t times : {2, 3}) pool->GiveBack(Take(pool->Take(times * kSmallBound)));
  }
  EXPECT_EQ(allocated(), 2);
}

TEST_P(PinnedPoolTest, ReservedBlockStaysWhereBlocksOfOtherSizesAreTooMany) {
  const auto pool = SmallPool();
  constexpr size_t kReserved = kSmallBound / 2;
  pool->Reserve(kReserved);
  pool->GiveBack(Take(pool->Take(kReserved)));  // The oldest block.
  std::vector<PinnedBlock> others;
  for (int i = 0; i < 3; ++i) others.push_back(Take(pool->Take(kSmallBound / 4)));
  for (PinnedBlock& block : others) pool->GiveBack(std::move(block));
  EXPECT_LE(pool->kept_bytes(), kSmallBound);
  EXPECT_EQ(allocated(), 4);
  PinnedBlock block = Take(pool->Take(kReserved));
  EXPECT_EQ(allocated(), 4);
  pool->GiveBack(std::move(block));
  pool->Unreserve(kReserved);
}

TEST_P(PinnedPoolTest, PreparedBlockIsTheOneThatIsTaken) {
  const auto pool = Pool();
  ASSERT_THAT(pool->Prepare(5000), IsOk());
  ASSERT_THAT(pool->Prepare(4500), IsOk());
  EXPECT_EQ(allocated(), 1);
  PinnedBlock block = Take(pool->TakeBehind(5000, nullptr));
  EXPECT_EQ(allocated(), 1);
  ASSERT_THAT(pool->Prepare(5000), IsOk());
  EXPECT_EQ(allocated(), 2) << "the other one is lent";
  pool->GiveBack(std::move(block));
}

TEST_P(PinnedPoolTest, BlockThatACopyUsesIsLentToWhoComesBehindThatCopy) {
  const auto pool = Pool();
  const Stream first = NewStream();
  const Stream second = NewStream();
  const DeviceMemory memory = NewDeviceMemory(64);
  const DeviceMemory other = NewDeviceMemory(64);
  ASSERT_EQ(driver().MemsetD8Async(other.get(), 2, 64, second.get()), CUDA_SUCCESS);
  PinnedBlock block = Take(pool->Take(64));
  std::fill_n(block.data(), 64, char{1});
  fake()->hold();
  ASSERT_EQ(driver().MemcpyHtoDAsync(memory.get(), block.data(), 64, first.get()), CUDA_SUCCESS);
  ASSERT_EQ(driver().EventRecord(block.event.get(), first.get()), CUDA_SUCCESS);
  block.in_use = true;
  pool->GiveBack(std::move(block));
  PinnedBlock again = Take(pool->TakeBehind(64, second.get()));
  EXPECT_EQ(allocated(), 1);
  EXPECT_TRUE(again.in_use);
  ASSERT_EQ(driver().MemcpyDtoHAsync(again.data(), other.get(), 64, second.get()), CUDA_SUCCESS);
  fake()->release();
  ASSERT_THAT(Synchronize(device(), second.get()), IsOk());
  EXPECT_EQ(again.data()[0], 2);
  ASSERT_EQ(driver().MemcpyDtoHAsync(again.data(), memory.get(), 64, second.get()), CUDA_SUCCESS);
  ASSERT_THAT(Synchronize(device(), second.get()), IsOk());
  EXPECT_EQ(again.data()[0], 1) << "the copy was over before the block was written again";
  again.in_use = false;
  pool->GiveBack(std::move(again));
}

TEST_P(PinnedPoolTest, OneWhoGivesBackTooMuchDoesNotCallTheDriver) {
  const auto pool = SmallPool();
  PinnedBlock block = Take(pool->Take(kSmallBound * 2));
  const std::string before = fake()->thread_log();
  pool->GiveBack(std::move(block));
  EXPECT_EQ(fake()->thread_log(), before);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 0);
}

TEST_P(PinnedPoolTest, PoolOutlivesWhoHoldsIt) {
  auto first = Pool();
  EXPECT_EQ(Pool(), first);
  first->GiveBack(Take(first->Take(64)));
  first.reset();
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
  first = Pool();
  first->GiveBack(Take(first->Take(64)));
  EXPECT_EQ(allocated(), 1);
  PinnedPools pools;
  EXPECT_EQ(Take(pools.On(0)), first.get());
  EXPECT_EQ(Take(pools.On(0)), first.get());
  EXPECT_THAT(pools.On(7).status(), StatusIs(StatusCode::kInvalidArgument, "cuDeviceGet on device 7"));
}

INSTANTIATE_TEST_SUITE_P(Double, PinnedPoolTest, ::testing::Values(Subject::kDouble), SubjectName);

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

  /// Adds one to the device's number, on the host.
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
  // Waits longer than the time for which Wait polls.
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
  // The next visit gets the same memory, after that copy.
  Staging next = Take(Begin());
  fake()->release();
  ASSERT_THAT(next.Wait(), IsOk());
  std::memset(next.data(), 0xff, sizeof(int32_t));
  EXPECT_EQ(Number(), 7);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
}

// If streams cannot write, events are used.
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

// A capture in the mode that forbids unsafe calls in all threads, as another library may make one.
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
  fake()->fail("cuMemsetD8Async", 1, CUDA_ERROR_ILLEGAL_ADDRESS);  // This error stays.
  EXPECT_EQ(driver().MemsetD8Async(memory_.get(), 0, sizeof(int32_t), stream_.get()), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(staging.ToHost(staging.data(), memory_.get(), sizeof(int32_t)),
              StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(staging.Wait(), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(Visit(), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

INSTANTIATE_TEST_SUITE_P(Double, StagingTest, ::testing::Values(Subject::kDouble), SubjectName);

}  // namespace
}  // namespace callout::internal::cuda
