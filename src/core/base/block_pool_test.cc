// SPDX-License-Identifier: Apache-2.0
#include "core/base/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "testing/live_counts.h"

namespace callout::internal {
namespace {

using Block = std::unique_ptr<void, BlockDeleter>;

constexpr size_t kKilobyte = size_t{1} << 10;
constexpr size_t kMegabyte = size_t{1} << 20;

class BlockPoolTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    TrimBlockPool();
  }
  void TearDown() override {
    TrimBlockPool();
    LiveCountTest::TearDown();
  }
};

// Returns the bytes that the pool keeps after a block of `bytes` was freed: the size of its class.
size_t ClassOf(size_t bytes) {
  TrimBlockPool();
  FreeBlock(AllocateBlock(bytes));
  const size_t kept = PooledBytes();
  TrimBlockPool();
  return kept;
}

TEST_F(BlockPoolTest, ClassesHaveFourStepsAPowerOfTwo) {
  EXPECT_EQ(ClassOf(0), kKilobyte);
  EXPECT_EQ(ClassOf(1), kKilobyte);
  EXPECT_EQ(ClassOf(1024), kKilobyte);
  EXPECT_EQ(ClassOf(1025), 1280U);
  EXPECT_EQ(ClassOf(1280), 1280U);
  EXPECT_EQ(ClassOf(1281), 1536U);
  EXPECT_EQ(ClassOf(1537), 1792U);
  EXPECT_EQ(ClassOf(1793), 2048U);
  EXPECT_EQ(ClassOf(2048), 2048U);
  EXPECT_EQ(ClassOf(2049), 2560U);
}

TEST_F(BlockPoolTest, ClassIsTheSmallestThatFitsAtEveryBorder) {
  for (size_t base = kKilobyte; base < 16 * kMegabyte; base *= 2) {
    for (size_t step = 1; step <= 4; ++step) {
      const size_t border = base + step * base / 4;
      EXPECT_EQ(ClassOf(border - 1), border) << border;
      EXPECT_EQ(ClassOf(border), border) << border;
      EXPECT_GT(ClassOf(border + 1), border) << border;
    }
  }
}

TEST_F(BlockPoolTest, BlocksAreAlignedAndWritableToTheirEnd) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{4097}, 3 * kMegabyte + 1}) {
    const Block block(AllocateBlock(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0U) << bytes;
    std::memset(block.get(), 0x5a, bytes);  // ASan finds an overrun
  }
}

TEST_F(BlockPoolTest, WithoutMemoryThereIsNoBlock) {
  for (const size_t bytes : {~size_t{0}, ~size_t{0} - 1000, (~size_t{0} >> 1) + 1}) {
    EXPECT_EQ(AllocateBlock(bytes), nullptr) << bytes;  // the fixture counts live blocks
  }
}

TEST_F(BlockPoolTest, FreedBlockIsHandedOutAgainForTheSameClass) {
  void* const first = AllocateBlock(1500);
  FreeBlock(first);
  const Block again(AllocateBlock(1300));
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(PooledBytes(), 0U);
}

TEST_F(BlockPoolTest, FreedBlockIsNotUsedForALargerClass) {
  void* const small = AllocateBlock(1024);
  FreeBlock(small);
  const Block larger(AllocateBlock(1025));
  EXPECT_NE(larger.get(), small);
  EXPECT_EQ(PooledBytes(), 1024U);
}

TEST_F(BlockPoolTest, KeepsNoMoreThanItsBound) {
  // Three blocks of 128 MB would be 384 MB; the bound is 256 MB. Untouched memory costs nothing.
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(AllocateBlock(128 * kMegabyte));
  for (void* block : blocks) FreeBlock(block);
  EXPECT_EQ(PooledBytes(), 256 * kMegabyte);
}

TEST_F(BlockPoolTest, LargestClassIsPooledAndAnythingBeyondIsNot) {
  FreeBlock(AllocateBlock(256 * kMegabyte));
  EXPECT_EQ(PooledBytes(), 256 * kMegabyte);
  TrimBlockPool();
  FreeBlock(AllocateBlock(256 * kMegabyte + 1));
  EXPECT_EQ(PooledBytes(), 0U);
}

TEST_F(BlockPoolTest, FreeingNullDoesNothing) {
  const auto before = ReadLiveCounts();
  FreeBlock(nullptr);
  EXPECT_EQ(ReadLiveCounts(), before);
  EXPECT_EQ(PooledBytes(), 0U);
}

TEST_F(BlockPoolTest, CountsLiveBlocks) {
  const int64_t before = LiveCount(LiveKind::kBlock);
  void* const block = AllocateBlock(1);
  EXPECT_EQ(LiveCount(LiveKind::kBlock), before + 1);
  FreeBlock(block);
  EXPECT_EQ(LiveCount(LiveKind::kBlock), before);
}

TEST_F(BlockPoolTest, ThreadsNeverHoldTheSameBlock) {
  constexpr int kThreads = 4;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&start, t] {
      start.arrive_and_wait();
      for (int round = 0; round < 200; ++round) {
        const Block block(AllocateBlock(2000));
        std::memset(block.get(), t, 2000);
        const auto* bytes = static_cast<const unsigned char*>(block.get());
        ASSERT_TRUE(std::all_of(bytes, bytes + 2000, [t](unsigned char byte) { return byte == t; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace callout::internal
