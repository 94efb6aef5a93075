// SPDX-License-Identifier: Apache-2.0
//
// Tests of callout.v1.buffer on CUDA with `graph`: when the callback runs, and errors.
#include "cuda/handlers/recorded_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "testing/buffer_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class RecordedCallsTest : public BufferSiteTest {
 protected:
  static FrameBuilder GraphFrame() { return std::move(BufferFrame().Int64Attr("graph", 1)); }

  /// Binds a callback that copies arguments to results, and counts its runs.
  std::shared_ptr<DeviceCallback> BindCopy() {
    auto callback = Bind();
    callback->on_call = [this](const callout_call& call) {
      ++runs_;
      return CopyOver(call);
    };
    return callback;
  }

  int runs_ = 0;
};

TEST_F(RecordedCallsTest, FirstCallRunsASecondRecordsAndOthersReplay) {
  const auto callback = BindCopy();
  const auto site = NewBufferSite();
  FrameBuilder frame = GraphFrame();
  TestBuffer in = OnDevice({1}, {1});
  TestBuffer out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const auto [recorded, launched] = RecordedCallCounts();
  const uint64_t calls = callback->stats().calls();  // All tests with this name count.
  for (int run = 0; run < 5; ++run) {
    ASSERT_THAT(site->Execute(frame), IsOk());
    EXPECT_EQ(runs_, run == 0 ? 1 : 2);
  }
  EXPECT_THAT(Read(out), ElementsAre(1));
  EXPECT_EQ(RecordedCallCounts(), std::pair(recorded + 1, launched + 4));
  EXPECT_EQ(callback->stats().calls() - calls, 2U) << "replays are no calls";
}

TEST_F(RecordedCallsTest, ReplayWorksOnWhatIsThereThen) {
  const auto callback = BindCopy();
  const auto site = NewBufferSite();
  FrameBuilder frame = GraphFrame();
  TestBuffer in = OnDevice({1}, {1});
  TestBuffer out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int run = 0; run < 2; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  const float changed = 9;
  {
    const cuda::ContextScope current(device());
    const auto at = reinterpret_cast<cuda::CUdeviceptr>(in.view().data);
    ASSERT_EQ(device().driver().MemcpyHtoDAsync(at, &changed, sizeof(changed), stream()), 0);
  }
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(9));
  EXPECT_EQ(runs_, 2);
}

TEST_F(RecordedCallsTest, EachSetOfBuffersHasItsRecordingAndTheOldestIsDropped) {
  const auto callback = BindCopy();
  const auto site = NewBufferSite();
  TestBuffer in = OnDevice({1}, {3});
  std::vector<FrameBuilder> frames;
  std::vector<TestBuffer> outs;
  for (size_t i = 0; i < RecordedCalls::kMost + 1; ++i) {
    outs.push_back(OnDevice({1}, {0}));
    frames.push_back(GraphFrame());
    frames.back().Arg(in).Ret(outs.back());
  }
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  ASSERT_THAT(site->Execute(frames[0]), IsOk());  // Runs the callback.
  for (FrameBuilder& frame : frames) ASSERT_THAT(site->Execute(frame), IsOk());
  const int all = 2 + static_cast<int>(RecordedCalls::kMost);
  EXPECT_EQ(runs_, all);
  for (TestBuffer& out : outs) EXPECT_THAT(Read(out), ElementsAre(3));
  EXPECT_EQ(Live(kSoftwareGpuGraphExec), static_cast<int64_t>(RecordedCalls::kMost));
  ASSERT_THAT(site->Execute(frames[1]), IsOk());  // This recording was kept.
  EXPECT_EQ(runs_, all);
  ASSERT_THAT(site->Execute(frames[0]), IsOk());  // This recording was dropped.
  EXPECT_EQ(runs_, all + 1);
}

// Imitates a program whose buffers lie elsewhere in each call.
TEST_F(RecordedCallsTest, BeyondTheSetsThatAreKeptTheOldestGraphIsUpdated) {
  constexpr size_t kSets = 2 * RecordedCalls::kMost;
  for (const bool update_fails : {false, true}) {
    const auto callback = BindCopy();
    const auto site = NewBufferSite();
    TestBuffer in = OnDevice({1}, {3});
    std::vector<FrameBuilder> frames;
    std::vector<TestBuffer> outs;
    for (size_t i = 0; i < kSets; ++i) {
      outs.push_back(OnDevice({1}, {0}));
      frames.push_back(GraphFrame());
      frames.back().Arg(in).Ret(outs.back());
    }
    ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
    ASSERT_THAT(site->Execute(frames[0]), IsOk());  // Runs the callback.
    const int instantiated = fake()->calls("cuGraphInstantiateWithFlags");
    const int streams = fake()->calls("cuStreamCreate");
    if (update_fails) fake()->fail("cuGraphExecUpdate", 1, cuda::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    fake()->hold();  // Executables are updated while their launches wait.
    for (FrameBuilder& frame : frames) ASSERT_THAT(site->Execute(frame), IsOk());
    fake()->release();
    for (TestBuffer& out : outs) EXPECT_THAT(Read(out), ElementsAre(3));
    EXPECT_EQ(fake()->calls("cuGraphInstantiateWithFlags") - instantiated,
              static_cast<int>(RecordedCalls::kMost) + (update_fails ? 1 : 0));
    EXPECT_EQ(fake()->calls("cuStreamCreate") - streams, 1);
  }
}

TEST_F(RecordedCallsTest, DevicesRecordForThemselves) {
  const auto callback = BindCopy();
  const auto first = NewBufferSite(0);
  FrameBuilder frames[] = {GraphFrame(), GraphFrame()};
  TestBuffer outs[] = {OnDevice({1}, {0}, 0), OnDevice({1}, {0}, 1)};
  for (int i = 0; i < 2; ++i) frames[i].Arg(OnDevice({1}, {static_cast<float>(5 + i)}, i)).Ret(outs[i]);
  ASSERT_THAT(first->Instantiate(frames[0]), IsOk());
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 2; ++i) {
      first->device_ordinal = i;
      first->stream = stream(i);
      ASSERT_THAT(first->Execute(frames[i]), IsOk());
    }
  }
  EXPECT_THAT(Read(outs[0], 0), ElementsAre(5));
  EXPECT_THAT(Read(outs[1], 1), ElementsAre(6));
  EXPECT_EQ(runs_, 4);
}

TEST_F(RecordedCallsTest, AllocationInARecordingIsToldAndTheNextCallRecords) {
  bool allocates = false;
  const auto callback = Bind();
  callback->on_call = [&](const callout_call& call) {
    if (allocates) {
      CALLOUT_ASSIGN_OR_RETURN(const cuda::DeviceMemory memory, AllocateDevice(device(), 64));
    }
    return CopyOver(call);
  };
  const auto site = NewBufferSite();
  FrameBuilder frame = GraphFrame();
  TestBuffer out = OnDevice({1}, {0});
  frame.Arg(OnDevice({1}, {4})).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  allocates = true;
  const Status status = site->Execute(frame);
  EXPECT_THAT(status, StatusIs(status.code(), "cuMemAlloc of 64 bytes"));
  EXPECT_THAT(status, StatusIs(status.code(), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"));
  EXPECT_THAT(status, StatusIs(status.code(), "must not allocate memory of the device"));
  allocates = false;
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(4));
}

TEST_F(RecordedCallsTest, CallThatIsRefusedAndSwallowedIsToldToo) {
  const auto callback = Bind();
  bool waits = false;
  callback->on_call = [&](const callout_call& call) {
    if (waits) static_cast<void>(Synchronize(device(), static_cast<cuda::CUstream>(call.stream)));
    return OkStatus();
  };
  const auto site = NewBufferSite();
  FrameBuilder frame = GraphFrame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  waits = true;
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kFailedPrecondition, "callback 'test.f' failed on device 0: cuStreamEndCapture"));
  EXPECT_EQ(Live(kSoftwareGpuGraph), 0);
}

TEST_F(RecordedCallsTest, FailureOfTheFirstCallIsNoRun) {
  const auto callback = Bind();
  callback->on_call = [&](const callout_call&) { return ++runs_ == 1 ? InvalidArgument("not yet") : OkStatus(); };
  const auto site = NewBufferSite();
  FrameBuilder frame = GraphFrame();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "not yet"));
  const auto [recorded, launched] = RecordedCallCounts();
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(RecordedCallCounts().first, recorded);
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(RecordedCallCounts(), std::pair(recorded + 1, launched + 1));
}

TEST_F(RecordedCallsTest, DriverThatFailsIsTheErrorAndLeavesNothing) {
  const auto callback = BindCopy();
  const auto site = NewBufferSite();
  FrameBuilder frame = GraphFrame();
  TestBuffer out = OnDevice({1}, {0});
  frame.Arg(OnDevice({1}, {4})).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  for (const char* function : {"cuStreamCreate", "cuStreamBeginCapture", "cuStreamEndCapture",
                               "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    fake()->fail(function, 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
    const Status status = site->Execute(frame);
    EXPECT_FALSE(status.ok()) << function;
    EXPECT_THAT(status, StatusIs(status.code(), function));
    EXPECT_THAT(status, StatusIs(status.code(), "CUDA_ERROR_OUT_OF_MEMORY (2)"));
    cuda::Reaper::Get().Flush();  // Destroying the stream ends its capture.
  }
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(4));
}

TEST_F(RecordedCallsTest, ThreadsRecordAndReplayAtOnce) {
  const auto callback = Bind();
  callback->on_call = [this](const callout_call& call) { return CopyOver(call); };
  const auto site = NewBufferSite();
  std::vector<FrameBuilder> frames;
  std::vector<TestBuffer> outs;
  for (int i = 0; i < 4; ++i) {
    outs.push_back(OnDevice({1}, {0}));
    frames.push_back(GraphFrame());
    frames.back().Arg(OnDevice({1}, {static_cast<float>(i)})).Ret(outs.back());
  }
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 20; ++run) EXPECT_THAT(site->Execute(frames[static_cast<size_t>(i)]), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Read(outs[static_cast<size_t>(i)]), ElementsAre(i));
}

}  // namespace
}  // namespace callout::internal
