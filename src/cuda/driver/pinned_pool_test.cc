// SPDX-License-Identifier: Apache-2.0
//
// Memory that is lent again: when it may be, how much is kept, and what happens when there is none.
#include "cuda/driver/pinned_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "testing/cuda_conformance.h"

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

TEST_P(PinnedPoolTest, BlockIsLentAgain) {
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

TEST_P(PinnedPoolTest, BlockThatACopyUsesIsNotLent) {
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
  constexpr size_t kThird = 20 << 10;  // three fit
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
  pool->GiveBack(Take(pool->Take(kReserved)));  // the oldest
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

}  // namespace
}  // namespace callout::internal::cuda
