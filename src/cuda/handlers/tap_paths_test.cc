// SPDX-License-Identifier: Apache-2.0
//
// Tests of the ways that a tap's data goes from a device to the host: the leaves of a tree in one launch, a large
// record on a stream of Callout's own. The tests count the driver calls of the launching thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/stream_work.h"
#include "testing/cuda_tap_fixture.h"

namespace callout::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr size_t kMegabyte = 1 << 20;

class CudaTapPathsTest : public CudaTapTest {
 protected:
  void TearDown() override {
    callback_.reset();
    CudaTapTest::TearDown();
  }

  /// Counts the thread's calls in `act`, with the context current as in XLA's threads.
  template <typename Act>
  std::map<std::string, int> CallsIn(Act&& act) {
    const cuda::ContextScope current(device());
    const std::string before(fake()->thread_log());
    act();
    std::map<std::string, int> calls;
    std::istringstream log(std::string(fake()->thread_log()).substr(before.size()));
    for (std::string line; std::getline(log, line);) ++calls[line.substr(0, line.find('('))];
    calls.erase("cuCtxGetCurrent");
    return calls;
  }

  std::unique_ptr<FakeSite> Prepared(FrameBuilder& frame) {
    auto site = NewTap(frame);
    EXPECT_THAT(site->Initialize(frame, &callout_v1_cuda_tap_initialize), IsOk());
    return site;
  }

  /// Makes a tap of one array of bytes, whose sums are appended to `sums`.
  std::unique_ptr<FakeSite> SumOf(FrameBuilder& frame, size_t bytes, uint8_t value, std::vector<uint64_t>& sums) {
    callback_ = Bind();
    callback_->on_deliver = [&sums](const Record& record) {
      const auto* data = static_cast<const uint8_t*>(record.buffers[0].data);
      sums.push_back(std::accumulate(data, data + record.buffers[0].size_bytes, uint64_t{0}));
      return OkStatus();
    };
    frame.Arg(BytesOnDevice(bytes, value));
    return Prepared(frame);
  }

  std::shared_ptr<FakeCallback> callback_;
};

TEST_F(CudaTapPathsTest, ManyLeavesAreOneLaunch) {
  const auto callback = Bind();
  std::vector<std::vector<uint8_t>> leaves;
  callback->on_deliver = [&](const Record& record) {
    for (const callout_buffer& buffer : record.buffers) {
      const auto* data = static_cast<const uint8_t*>(buffer.data);
      leaves.emplace_back(data, data + buffer.size_bytes);
    }
    return OkStatus();
  };
  FrameBuilder frame = Frame();
  std::string names;
  std::vector<std::vector<uint8_t>> expected;
  for (size_t i = 0; i < 100; ++i) {
    expected.emplace_back(i == 7 ? 0 : i * i + 1);  // Arrays of various lengths, one of them empty.
    std::iota(expected.back().begin(), expected.back().end(), static_cast<uint8_t>(i));
    names += (i == 0 ? "" : "\n") + std::to_string(i);
    if (expected.back().empty()) {
      frame.Arg(TestBuffer::At(DType::kUint8, {0}, nullptr));
    } else {
      frame.Arg(OnDevice<uint8_t>({static_cast<int64_t>(expected.back().size())}, expected.back()));
    }
  }
  frame.StringAttr("leaves", names);
  const auto site = Prepared(frame);
  const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_THAT(calls, UnorderedElementsAre(Pair("cuLaunchKernel", 1), Pair("cuStreamWriteValue32", 1)));
  Barrier();
  EXPECT_EQ(leaves, expected);
}

TEST_F(CudaTapPathsTest, LeavesAtOddAddressesArriveWhole) {
  const auto callback = Bind();
  std::vector<uint64_t> seen;
  callback->on_deliver = [&](const Record& record) {
    for (const callout_buffer& buffer : record.buffers) {
      const auto* data = static_cast<const uint8_t*>(buffer.data);
      seen.push_back(std::accumulate(data, data + buffer.size_bytes, uint64_t{0}));
    }
    return OkStatus();
  };
  std::vector<uint8_t> numbers(400000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint8_t>(i * 7);
  TestBuffer all = OnDevice<uint8_t>({400000}, numbers);
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb\nc\nd");
  std::vector<uint64_t> expected;
  for (const auto& [at, bytes] : {std::pair{0, 200000}, {1, 33}, {16, 17}, {200003, 199997}}) {
    frame.Arg(TestBuffer::At(DType::kUint8, {bytes}, static_cast<char*>(all.view().data) + at));
    expected.push_back(std::accumulate(numbers.begin() + at, numbers.begin() + at + bytes, uint64_t{0}));
  }
  const auto site = Prepared(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_EQ(seen, expected);
}

TEST_F(CudaTapPathsTest, FewLeavesAreCopied) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb\nc").Arg(OnDevice({}, {1.0F})).Arg(OnDevice({}, {2.0F})).Arg(OnDevice({}, {3.0F}));
  const auto site = Prepared(frame);
  const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_THAT(calls, UnorderedElementsAre(Pair("cuMemcpyDtoHAsync", 3), Pair("cuStreamWriteValue32", 1)));
  Barrier();
}

TEST_F(CudaTapPathsTest, WithoutCodeManyLeavesAreCopied) {
  const auto callback = Bind();
  std::vector<float> seen;
  callback->on_deliver = [&](const Record& record) {
    for (const callout_buffer& buffer : record.buffers) seen.push_back(*static_cast<const float*>(buffer.data));
    return OkStatus();
  };
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb\nc\nd");
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F}) frame.Arg(OnDevice({}, {value}));
  for (int nth = 1; nth <= 2; ++nth) fake()->fail("cuLibraryLoadData", nth, cuda::CUDA_ERROR_INVALID_PTX);
  const auto site = Prepared(frame);
  ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_tap_initialize), IsOk()) << "it is not tried again";
  const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_THAT(calls, UnorderedElementsAre(Pair("cuMemcpyDtoHAsync", 4), Pair("cuStreamWriteValue32", 1)));
  Barrier();
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
}

TEST_F(CudaTapPathsTest, LargeRecordsLeaveTheProgramsStreamAtOnce) {
  std::vector<uint64_t> sums;
  FrameBuilder frame = Frame();
  const auto site = SumOf(frame, kMegabyte, 3, sums);
  for (int run = 0; run < 5; ++run) {
    const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
    EXPECT_THAT(calls, UnorderedElementsAre(Pair("cuMemcpyDtoDAsync", 1), Pair("cuEventRecord", 1),
                                            Pair("cuStreamWaitEvent", 1), Pair("cuMemcpyDtoHAsync", 1),
                                            Pair("cuStreamWriteValue32", 1)));
    Barrier();
  }
  EXPECT_THAT(sums, SizeIs(5));
  EXPECT_THAT(sums, Each(3 * kMegabyte));
}

// The copy on the device is in the program's order; afterwards the program may change its buffers.
TEST_F(CudaTapPathsTest, TheProgramMayOverwriteWhatALargeTapSent) {
  std::vector<uint64_t> sums;
  FrameBuilder frame = Frame();
  const auto site = SumOf(frame, kMegabyte, 1, sums);
  const cuda::ContextScope current(device());
  const auto at = cuda::AddressOf(frame.arg(0).view().data);
  for (unsigned char next = 2; next < 12; ++next) {
    ASSERT_THAT(site->Execute(frame), IsOk());
    ASSERT_EQ(device().driver().MemsetD8Async(at, next, kMegabyte, stream()), 0);
  }
  Barrier();
  std::vector<uint64_t> expected;
  for (uint64_t value = 1; value < 11; ++value) expected.push_back(value * kMegabyte);
  EXPECT_EQ(sums, expected);
}

TEST_F(CudaTapPathsTest, SmallAndLargeRecordsComeInTheOrderOfTheProgram) {
  const auto callback = Bind();
  std::vector<uint64_t> sizes;
  callback->on_deliver = [&](const Record& record) {
    return sizes.push_back(record.buffers[0].size_bytes), OkStatus();
  };
  std::vector<uint64_t> expected;
  std::vector<std::unique_ptr<FakeSite>> sites;
  std::vector<FrameBuilder> frames;
  for (const size_t bytes : {2 * kMegabyte, size_t{8}, 3 * kMegabyte, size_t{16}}) {
    frames.push_back(Frame());
    frames.back().Arg(BytesOnDevice(bytes));
    sites.push_back(Prepared(frames.back()));
  }
  for (int run = 0; run < 4; ++run) {
    for (size_t i = 0; i < sites.size(); ++i) {
      ASSERT_THAT(sites[i]->Execute(frames[i]), IsOk());
      expected.push_back(frames[i].arg(0).view().size_bytes);
    }
  }
  Barrier();
  EXPECT_EQ(sizes, expected);
}

TEST_F(CudaTapPathsTest, ManyLargeLeavesAreOneLaunchAndOneCopy) {
  const auto callback = Bind();
  std::vector<uint8_t> first;
  callback->on_deliver = [&](const Record& record) {
    for (const callout_buffer& buffer : record.buffers) {
      first.push_back(static_cast<const uint8_t*>(buffer.data)[buffer.size_bytes - 1]);
    }
    return OkStatus();
  };
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb\nc\nd\ne");
  for (uint8_t value = 1; value <= 5; ++value) frame.Arg(BytesOnDevice(300000, value));
  const auto site = Prepared(frame);
  const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_THAT(calls,
              UnorderedElementsAre(Pair("cuLaunchKernel", 1), Pair("cuEventRecord", 1), Pair("cuStreamWaitEvent", 1),
                                   Pair("cuMemcpyDtoHAsync", 1), Pair("cuStreamWriteValue32", 1)));
  Barrier();
  EXPECT_THAT(first, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(CudaTapPathsTest, RecordsOfMoreThanHalfOfTheRingPinNothingWhenTheyAreSent) {
  std::vector<uint64_t> sums;
  FrameBuilder frame = Frame();
  const auto site = SumOf(frame, 9 * kMegabyte, 1, sums);
  for (int run = 0; run < 3; ++run) {
    const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
    EXPECT_EQ(calls.count("cuMemHostAlloc"), 0U);
    Barrier();
  }
  EXPECT_THAT(sums, ElementsAre(9 * kMegabyte, 9 * kMegabyte, 9 * kMegabyte));
}

TEST_F(CudaTapPathsTest, ADeviceWithoutMemoryToSpareCopiesOnTheProgramsStream) {
  std::vector<uint64_t> sums;
  FrameBuilder frame = Frame();
  frame.Arg(BytesOnDevice(kMegabyte, 2));
  callback_ = Bind();
  callback_->on_deliver = [&](const Record& record) {
    return sums.push_back(static_cast<const uint8_t*>(record.buffers[0].data)[0]), OkStatus();
  };
  fake()->fail("cuMemAlloc", 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  const auto site = Prepared(frame);
  const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_THAT(calls, UnorderedElementsAre(Pair("cuMemcpyDtoHAsync", 1), Pair("cuStreamWriteValue32", 1)));
  Barrier();
  EXPECT_THAT(sums, ElementsAre(2));
}

// Makes each driver call of the side stream's path fail once. Queued work is awaited, and the next record arrives.
TEST_F(CudaTapPathsTest, AFailureOnTheWayIsTheTaps) {
  std::vector<uint64_t> sums;
  FrameBuilder frame = Frame();
  const auto site = SumOf(frame, kMegabyte, 1, sums);
  for (const char* call :
       {"cuMemcpyDtoDAsync", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyDtoHAsync", "cuStreamWriteValue32"}) {
    fake()->fail(call, 1, cuda::CUDA_ERROR_INVALID_VALUE);
    const int waits = fake()->calls("cuStreamSynchronize");
    const Status status = site->Execute(frame);
    EXPECT_EQ(fake()->calls("cuStreamSynchronize"), waits + 2) << "its program's stream, and the other";
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, call));
    Barrier();  // The next record finds room in the stage.
    ASSERT_THAT(site->Execute(frame), IsOk()) << call;
    Barrier();
  }
  EXPECT_THAT(sums, SizeIs(5));
  EXPECT_THAT(sums, Each(kMegabyte));
}

TEST_F(CudaTapPathsTest, WhatThereIsNoMemoryForIsAskedForOnce) {
  callback_ = Bind();
  FrameBuilder small = Frame();
  small.Arg(OnDevice({}, {1.0F}));
  const auto first = Prepared(small);  // Makes the ring.
  FrameBuilder frame = Frame();
  frame.Arg(BytesOnDevice(9 * kMegabyte, 1));
  const auto site = NewTap(frame);
  const auto initialize = [&] { ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_tap_initialize), IsOk()); };
  fake()->fail("cuMemAlloc", 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  for (int nth = 1; nth <= 2; ++nth) fake()->fail("cuMemHostAlloc", nth, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  initialize();
  auto calls = CallsIn(initialize);
  calls.erase("cuThreadExchangeStreamCaptureMode");
  EXPECT_THAT(calls, IsEmpty());
}

TEST_F(CudaTapPathsTest, ADeviceThatSendsNothingPreparesNothing) {
  callback_ = Bind();
  FrameBuilder frame = Frame();
  frame.Int64Attr("only_device", 1).Arg(BytesOnDevice(9 * kMegabyte));
  const auto site = NewTap(frame);
  EXPECT_THAT(CallsIn([&] { ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_tap_initialize), IsOk()); }),
              IsEmpty());
}

TEST_F(CudaTapPathsTest, PinnedMemoryOfManySizesIsGivenBack) {
  callback_ = Bind();
  const std::shared_ptr<cuda::PinnedPool> pool = cuda::PinnedPool::On(0).value();
  for (size_t megabytes = 40; megabytes < 56; ++megabytes) {
    FrameBuilder frame = Frame();
    frame.Arg(BytesOnDevice(megabytes * kMegabyte));
    (void)Prepared(frame);
  }
  EXPECT_LE(pool->kept_bytes(), 512 * kMegabyte);
}

TEST_F(CudaTapPathsTest, PreparingDoesNotDisturbARecordingOfAnotherThread) {
  callback_ = Bind();
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb\nc\nd").Arg(BytesOnDevice(9 * kMegabyte));
  for (int i = 0; i < 3; ++i) frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  const auto other = CreateStream(device());
  ASSERT_THAT(other, IsOk());
  const cuda::ContextScope current(device());
  const cuda::Driver& driver = device().driver();
  ASSERT_EQ(driver.StreamBeginCapture(other->get(), cuda::CU_STREAM_CAPTURE_MODE_GLOBAL), cuda::CUDA_SUCCESS);
  std::thread([&] { EXPECT_THAT(site->Initialize(frame, &callout_v1_cuda_tap_initialize), IsOk()); }).join();
  cuda::CUgraph graph = nullptr;
  EXPECT_EQ(driver.StreamEndCapture(other->get(), &graph), cuda::CUDA_SUCCESS);
  const cuda::Graph recorded(device(), graph);
}

TEST_F(CudaTapPathsTest, LargeLeavesAmongSmallOnesAreCopied) {
  callback_ = Bind();
  std::vector<uint8_t> last;
  callback_->on_deliver = [&](const Record& record) {
    for (const callout_buffer& buffer : record.buffers) {
      last.push_back(static_cast<const uint8_t*>(buffer.data)[buffer.size_bytes - 1]);
    }
    return OkStatus();
  };
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb\nc\nd\ne");
  for (uint8_t value = 1; value <= 5; ++value) frame.Arg(BytesOnDevice(value == 3 ? 2 * kMegabyte : 100, value));
  const auto site = Prepared(frame);
  const auto calls = CallsIn([&] { ASSERT_THAT(site->Execute(frame), IsOk()); });
  EXPECT_EQ(calls.at("cuLaunchKernel"), 1);
  EXPECT_EQ(calls.at("cuMemcpyDtoDAsync"), 1);
  Barrier();
  EXPECT_THAT(last, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(CudaTapPathsTest, ManyProgramsSendLargeRecordsAtOnce) {
  constexpr int kRuns = 20;
  callback_ = Bind();
  std::atomic<int> wrong{0};
  callback_->on_deliver = [&](const Record& record) {
    const auto* data = static_cast<const uint8_t*>(record.buffers[0].data);
    const size_t bytes = record.buffers[0].size_bytes;
    wrong += std::count(data, data + bytes, data[0]) != static_cast<ptrdiff_t>(bytes) ? 1 : 0;
    return OkStatus();
  };
  std::vector<cuda::Stream> streams;
  std::vector<FrameBuilder> frames;
  std::vector<std::unique_ptr<FakeSite>> sites;
  for (uint8_t i = 0; i < 4; ++i) {
    streams.push_back(CreateStream(device()).value());
    frames.push_back(Frame());
    frames.back().Arg(BytesOnDevice(kMegabyte + 64 * i, i));
    sites.push_back(Prepared(frames.back()));
    sites.back()->stream = streams.back().get();
  }
  std::vector<std::thread> programs;
  for (size_t i = 0; i < sites.size(); ++i) {
    programs.emplace_back([&, i] {
      const cuda::ContextScope current(device());
      const auto at = cuda::AddressOf(frames[i].arg(0).view().data);
      for (unsigned char run = 0; run < kRuns; ++run) {
        ASSERT_EQ(device().driver().MemsetD8Async(at, run, kMegabyte + 64 * i, streams[i].get()), 0);
        ASSERT_THAT(sites[i]->Execute(frames[i]), IsOk());
      }
    });
  }
  for (std::thread& program : programs) program.join();
  Barrier();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(callback_->stats().calls(), 4U * kRuns);
}

}  // namespace
}  // namespace callout::internal
