// SPDX-License-Identifier: Apache-2.0
//
// Tests of callout.v1.tap on CUDA: when records arrive, and in which order. src/core/ffi/tap_conformance_test.cc tests
// what every platform does, tap_room_test.cc full rings and queues, tap_errors_test.cc errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "core/callbacks/in_flight.h"
#include "testing/cuda_tap_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using CudaTapHandlerTest = CudaTapTest;

TEST_F(CudaTapHandlerTest, MayNotBeCaptured) {
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_cuda_tap_execute).traits, 0U);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_cuda_tap_initialize).traits, 0U);
}

TEST_F(CudaTapHandlerTest, ProgramGoesOnAndTheRecordComesWhenItsStreamHasRun) {
  const auto callback = Bind();
  std::vector<float> values;
  Collect(*callback, values);
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {2.5F}));
  const auto site = NewTap(frame);
  fake()->hold();
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(UnderWay().records, 1U);
  EXPECT_THAT(Delivery::Get().Drain(std::chrono::steady_clock::now()),
              ElementsAre(HasSubstr("1 records of the native queue on their way from device 0")));
  EXPECT_THAT(Delivery::Get().DescribeQueues(), HasSubstr("1 more on their way from the device"));
  EXPECT_EQ(callback->stats().calls(), 0U);
  fake()->release();
  Barrier();
  EXPECT_THAT(values, ElementsAre(2.5F));
  EXPECT_EQ(UnderWay().records, 0U);
  EXPECT_EQ(UnderWay().bytes, 0U);
}

// The operand may be overwritten as soon as the handler has returned.
TEST_F(CudaTapHandlerTest, LaterWorkOfTheStreamDoesNotChangeWhatWasTapped) {
  const auto callback = Bind();
  std::vector<float> values;
  Collect(*callback, values);
  FrameBuilder frame = Frame();
  TestBuffer value = OnDevice({}, {1.0F});
  frame.Arg(value);
  const auto site = NewTap(frame);
  const cuda::ContextScope current(device());
  const auto at = reinterpret_cast<cuda::CUdeviceptr>(value.view().data);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(site->Execute(frame), IsOk());
    const auto next = static_cast<float>(i + 2);
    ASSERT_EQ(device().driver().MemcpyHtoDAsync(at, &next, sizeof(next), stream()), 0);
  }
  Barrier();
  EXPECT_THAT(values, ElementsAre(1, 2, 3));
}

TEST_F(CudaTapHandlerTest, RecordsComeInOrderWhileTheRingIsUsedAgainAndAgain) {
  constexpr int32_t kRecords = 300;
  const auto callback = Bind();
  std::vector<int32_t> values;
  Collect(*callback, values);
  FrameBuilder frame = Frame();
  std::vector<int32_t> numbers(32 << 10);  // 128 KB; the ring has room for 60 records.
  TestBuffer value = OnDevice<int32_t>({static_cast<int64_t>(numbers.size())}, numbers);
  frame.Arg(value);
  const auto site = NewTap(frame);
  const cuda::ContextScope current(device());
  const auto at = reinterpret_cast<cuda::CUdeviceptr>(value.view().data);
  for (int32_t i = 0; i < kRecords; ++i) {
    ASSERT_EQ(device().driver().MemcpyHtoDAsync(at, &i, sizeof(i), stream()), 0);
    ASSERT_THAT(site->Execute(frame), IsOk());
  }
  Barrier();
  std::vector<int32_t> expected(kRecords);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(values, expected);
}

TEST_F(CudaTapHandlerTest, WhatIsNotSentIsNotCopied) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Int64Attr("every", 3).Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  const int copies = fake()->calls("cuMemcpyDtoHAsync");
  for (int i = 0; i < 8; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync") - copies, 3);
  FrameBuilder other = Frame();
  other.Int64Attr("only_device", 1).Arg(OnDevice({}, {1.0F}));
  ASSERT_THAT(NewTap(other)->Execute(other), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync") - copies, 3);
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 3U);
  EXPECT_EQ(callback->stats().skips.load(), 5U);
}

TEST_F(CudaTapHandlerTest, StepOnTheDeviceSaysWhoseTurnItIs) {
  const auto callback = Bind();
  std::vector<std::pair<std::optional<int64_t>, uint32_t>> steps;
  callback->on_deliver = [&](const Record& record) {
    EXPECT_EQ(record.buffers.size(), 1U);
    EXPECT_EQ(*static_cast<const float*>(record.buffers[0].data), 0.5F);
    EXPECT_THAT(std::vector<int64_t>(record.offsets.begin(), record.offsets.end()), ElementsAre(70));
    return steps.emplace_back(record.step, record.skipped), OkStatus();
  };
  for (int16_t i = 6; i < 13; ++i) {
    // Each step has a site of its own, because operands must stay in place. The program counts all of them as one.
    FrameBuilder frame = Frame();
    frame.Int64Attr("every", 4).Int64Attr("step", 1).Int64Attr("offsets", 1);
    frame.Arg(OnDevice({1}, {0.5F})).Arg(OnDevice<int16_t>({2}, {i, 99})).Arg(OnDevice<int64_t>({1}, {70}));
    ASSERT_THAT(NewTap(frame)->Execute(frame), IsOk());
  }
  Barrier();
  EXPECT_THAT(steps, ElementsAre(std::pair(8, 0U), std::pair(12, 0U)));
  EXPECT_EQ(callback->stats().skips.load(), 5U);
}

TEST_F(CudaTapHandlerTest, RecordLargerThanTheRingHasABlockThatIsUsedAgain) {
  constexpr size_t kBytes = 20 << 20;
  const auto callback = Bind();
  size_t right = 0;
  callback->on_deliver = [&](const Record& record) {
    const auto* data = static_cast<const uint8_t*>(record.buffers[0].data);
    right += std::all_of(data, data + kBytes, [](uint8_t byte) { return byte == 7; });
    return OkStatus();
  };
  FrameBuilder frame = Frame();
  frame.Arg(BytesOnDevice(kBytes, 7));
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  const int64_t blocks = Live(kSoftwareGpuPinnedMemory);
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_EQ(right, 2U);
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), blocks);
}

TEST_F(CudaTapHandlerTest, ExecutableEndsWhileItsRecordsAreUnderWay) {
  const auto callback = Bind();
  std::vector<float> values;
  Collect(*callback, values);
  FrameBuilder frame = Frame();
  frame.StringAttr("label", "gone").Arg(OnDevice({}, {4.0F}));
  auto site = NewTap(frame);
  fake()->hold();
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  const int64_t sites = LiveCount(LiveKind::kSite);
  site.reset();
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites);
  fake()->release();
  Barrier();
  EXPECT_THAT(values, ElementsAre(4, 4, 4));
}

// An ordered call waits for earlier records: first while they are on their way, then in their queue.
TEST_F(CudaTapHandlerTest, OrderedCallWaitsForRecordsThatAreUnderWay) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  fake()->hold();
  ASSERT_THAT(site->Execute(frame), IsOk());
  uint64_t delivered = 0;
  std::thread caller([&] {
    Delivery::Get().DrainDevice(*callback, 0, 5);
    delivered = callback->stats().calls();
  });
  SpinUntil([] {
    const auto threads = ReadInFlight();
    return std::any_of(threads.begin(), threads.end(), [](const InFlight& each) {
      return each.activity == Activity::kWaitingForTaps && each.run_id == 5;
    });
  });
  EXPECT_EQ(callback->stats().calls(), 0U);
  fake()->release();
  caller.join();
  EXPECT_EQ(delivered, 1U);
}

TEST_F(CudaTapHandlerTest, ParkedThreadStartsWithTheNextRecordAndItsMemoryIsLentAgain) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  for (uint64_t i = 1; i < 4; ++i) {
    ASSERT_THAT(site->Execute(frame), IsOk());
    Barrier();
    EXPECT_EQ(callback->stats().calls(), i);
    Delivery::Get().Park();
    EXPECT_EQ(Delivery::Get().RunningThreads(), 0);
    EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
  }
  fake()->hold();
  ASSERT_THAT(site->Execute(frame), IsOk());
  Delivery::Get().Park();  // Records are on their way, so the memory is kept and the thread goes on.
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1);
  fake()->release();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 4U);
}

// Every record arrives, in whatever order programs, drainer, barrier and park run.
TEST_F(CudaTapHandlerTest, ManyProgramsAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRecords = 500;
  const auto callback = Bind();
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<FakeSite>> sites;
  std::vector<FrameBuilder> frames(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    frames[t] = Frame();
    frames[t].Arg(OnDevice({}, {1.0F}, t % 2));
    sites.push_back(NewTap(frames[t], t % 2));
  }
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRecords; ++i) EXPECT_THAT(sites[t]->Execute(frames[t]), IsOk());
      sites[t].reset();
    });
  }
  for (int i = 0; i < 20; ++i) {
    Delivery::Get().Park();
    Barrier();
  }
  for (std::thread& thread : threads) thread.join();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), static_cast<uint64_t>(kThreads * kRecords));
}

}  // namespace
}  // namespace callout::internal
