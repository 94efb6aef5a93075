// SPDX-License-Identifier: Apache-2.0
#include "sinks/progress_bar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ProgressClockTest = LiveCountTest;
using State = std::array<uint32_t, kProgressStateSize>;

constexpr int64_t kMillisecond = 1'000'000;

callout_call Call(int64_t run_id, int32_t device) {
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.run_id = run_id;
  call.device_ordinal = device;
  return call;
}

TEST_F(ProgressClockTest, FirstChunkIsOneStep) { EXPECT_EQ(NextChunk(0, 0, kMillisecond), 1U); }

TEST_F(ProgressClockTest, ChunkGrowsToItsTime) {
  EXPECT_EQ(NextChunk(100, 50 * kMillisecond, 100 * kMillisecond), 200U);
  EXPECT_EQ(NextChunk(100, 100 * kMillisecond, 100 * kMillisecond), 100U);
}

TEST_F(ProgressClockTest, ChunkGrowsEightTimesAtMost) {
  EXPECT_EQ(NextChunk(100, 0, kMillisecond), 800U);
  EXPECT_EQ(NextChunk(1U << 30, 1, kMillisecond), 1U << 30);
}

TEST_F(ProgressClockTest, ChunkShrinksToOneStepAtOnce) {
  EXPECT_EQ(NextChunk(1000, 100'000 * kMillisecond, 50 * kMillisecond), 1U);
}

TEST_F(ProgressClockTest, EachExecutionGetsANumberOfItsOwnAndKeepsIt) {
  State one{}, other{};
  AdvanceProgress(one, 0, 1, Call(7, 3));
  AdvanceProgress(other, 0, 1, Call(7, 3));
  EXPECT_NE(one[2], other[2]);
  EXPECT_EQ(one[4], 7U);
  EXPECT_EQ(one[6], 3U);
  const State before = one;
  AdvanceProgress(one, 0, 2, Call(8, 4));
  EXPECT_TRUE(std::equal(one.begin() + 2, one.end(), before.begin() + 2));
  EXPECT_EQ(one[0], 2U);
}

TEST_F(ProgressClockTest, ChunkKeepsItsLengthWithoutAnInterval) {
  State state{};
  state[7] = 50;
  AdvanceProgress(state, 0, 1, Call(7, 0));
  AdvanceProgress(state, 0, 2, Call(7, 0));
  EXPECT_EQ(state[7], 50U);
}

TEST_F(ProgressClockTest, TimeOfAChunkIsMeasuredFromTheCallBefore) {
  State state{};
  const int64_t start = (int64_t{5} << 32) + 17;
  AdvanceProgress(state, 50'000, start, Call(7, 0));
  EXPECT_EQ(state[7], 1U);
  AdvanceProgress(state, 50'000, start + 10 * kMillisecond, Call(7, 0));
  EXPECT_EQ(state[7], 5U);
}

TEST_F(ProgressClockTest, StatesOfOtherShapesAreRefused) {
  const auto clock = MakeProgressClock("progress_clock", "");
  ASSERT_THAT(clock, IsOk());
  TestBuffer state = TestBuffer::Of<uint32_t>({8}, std::vector<uint32_t>(8));
  TestBuffer interval = TestBuffer::Of<uint32_t>({}, {1000});
  TestBuffer next = TestBuffer::Of<uint32_t>({8}, std::vector<uint32_t>(8));
  const callout_buffer args[] = {state.view(), interval.view()};
  const callout_buffer results[] = {next.view()};
  callout_call call = Call(5, 1);
  call.num_args = 2;
  call.num_results = 1;
  call.args = args;
  call.results = results;
  ASSERT_THAT(clock.value()->Call(call), IsOk());
  EXPECT_EQ(static_cast<const uint32_t*>(results[0].data)[7], 1U);
  call.num_args = 1;
  EXPECT_THAT(clock.value()->Call(call), StatusIs(StatusCode::kInvalidArgument, "u32[8]"));
}

}  // namespace
}  // namespace callout::internal
