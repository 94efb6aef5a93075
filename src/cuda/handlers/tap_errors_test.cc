// SPDX-License-Identifier: Apache-2.0
//
// Tests of errors of taps on CUDA: failing driver calls, broken contexts, refused values, and processes that end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <system_error>
#include <thread>

#include "cuda/taps/device_taps.h"
#include "testing/cuda_tap_fixture.h"
#include "testing/no_threads.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Refuses values whose last element is a NaN.
class Refuser final : public FakeCallback, public Inspector {
 public:
  Refuser() : FakeCallback("test.refuser") {}
  Inspector* inspector() override { return this; }
  Result<Send> Inspect(const Record& record) override {
    const callout_buffer& value = record.buffers[0];
    const float last = static_cast<const float*>(value.data)[value.size_bytes / sizeof(float) - 1];
    const std::string number = std::to_string(seen_.fetch_add(1));
    if (std::isnan(last)) return InternalError("value " + number + " is refused");
    return Send::kNothing;
  }

 private:
  std::atomic<int> seen_{0};
};

class CudaTapErrorsTest : public CudaTapTest {
 protected:
  static std::shared_ptr<Refuser> BindRefuser() {
    auto refuser = std::make_shared<Refuser>();
    EXPECT_EQ(Registry::Get().Bind("test.refuser", refuser), "py:test.refuser");
    return refuser;
  }
  /// Breaks the context, as a kernel does that accesses invalid memory: the error stays, and queued work does not run
  /// any more.
  void BreakContext(int ordinal = 0) {
    const cuda::ContextScope current(device(ordinal));
    fake()->fail("cuMemGetInfo", 1, cuda::CUDA_ERROR_ILLEGAL_ADDRESS);
    size_t free = 0;
    size_t total = 0;
    EXPECT_EQ(device(ordinal).driver().MemGetInfo(&free, &total), cuda::CUDA_ERROR_ILLEGAL_ADDRESS);
  }
};

TEST_F(CudaTapErrorsTest, OfEveryCallOfTheDriverAreClearAndTheNextTapWorks) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1).Int64Attr("deferred", 0).Arg(OnDevice<uint32_t>({}, {1})).Arg(OnDevice({}, {1.0F}));
  TestBuffer token = OnDevice<uint32_t>({}, {0});
  frame.Ret(token);
  const auto site = NewTap(frame);
  uint64_t delivered = 0;
  for (const char* function :
       {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuEventCreate", "cuMemHostAlloc",
        "cuMemHostGetDevicePointer", "cuMemcpyDtoDAsync", "cuMemcpyDtoHAsync", "cuStreamWriteValue32"}) {
    Delivery::Get().Park();  // Everything must be allocated anew.
    cuda::PinnedPool::ReleaseIdle();
    fake()->fail(function, 1, cuda::CUDA_ERROR_UNKNOWN);
    EXPECT_THAT(site->Execute(frame),
                StatusIs(StatusCode::kInternal,
                         ::testing::AllOf(HasSubstr(function), HasSubstr("CUDA_ERROR_UNKNOWN"), HasSubstr("(999)"))))
        << function;
    EXPECT_THAT(site->Execute(frame), IsOk()) << function;
    Barrier();
    EXPECT_EQ(callback->stats().calls(), ++delivered) << function;
  }
}

TEST_F(CudaTapErrorsTest, HostFunctionThatCannotBeQueuedIsTold) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  fake()->fail("cuStreamWriteValue32", 1, cuda::CUDA_ERROR_NOT_SUPPORTED);
  fake()->fail("cuLaunchHostFunc", 1, cuda::CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal,
                                             "callback 'test.tap' failed on device 0: "
                                             "cuLaunchHostFunc on device 0 failed: CUDA_ERROR_UNKNOWN"));
  EXPECT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 1U);
}

// The copies of the first operand are queued already; the slot becomes free after them.
TEST_F(CudaTapErrorsTest, RecordOfWhichOnlyAPartCouldBeQueuedIsNotSent) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb").Arg(OnDevice({}, {1.0F})).Arg(OnDevice({}, {2.0F}));
  const auto site = NewTap(frame);
  fake()->fail("cuMemcpyDtoHAsync", 2, cuda::CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "cuMemcpyDtoHAsync"));
  const cuda::ContextScope current(device());
  EXPECT_EQ(device().driver().StreamQuery(stream()), cuda::CUDA_SUCCESS);
  Barrier();
  EXPECT_EQ(UnderWay().records, 0U);
  EXPECT_EQ(callback->stats().calls(), 0U);
}

TEST_F(CudaTapErrorsTest, CheckThatFailsOnceIsNotTheEndOfTheDevice) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  fake()->hold();
  fake()->fail("cuEventQuery", 1, cuda::CUDA_ERROR_UNKNOWN);
  ASSERT_THAT(site->Execute(frame), IsOk());
  SpinUntil([&] { return fake()->calls("cuEventQuery") > 1; });
  fake()->release();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 1U);
}

// Other threads may capture streams in a mode that forbids queries to all threads; the drainer's queries must not
// invalidate that capture.
TEST_F(CudaTapErrorsTest, CheckDoesNotDisturbARecording) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  const auto other = CreateStream(device());
  ASSERT_THAT(other, IsOk());
  fake()->hold();
  ASSERT_THAT(site->Execute(frame), IsOk());
  const cuda::ContextScope current(device());
  const cuda::Driver& driver = device().driver();
  ASSERT_EQ(driver.StreamBeginCapture(other->get(), cuda::CU_STREAM_CAPTURE_MODE_GLOBAL), cuda::CUDA_SUCCESS);
  const int asked = fake()->calls("cuEventQuery");
  SpinUntil([&] { return fake()->calls("cuEventQuery") > asked + 1; });
  cuda::CUgraph graph = nullptr;
  EXPECT_EQ(driver.StreamEndCapture(other->get(), &graph), cuda::CUDA_SUCCESS);
  const cuda::Graph recorded(device(), graph);
  fake()->release();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 1U);
}

TEST_F(CudaTapErrorsTest, RecordsOfADeadContextAreLostCountedAndTold) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  fake()->hold();
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  BreakContext();
  fake()->release();
  Barrier();
  const DeliveryErrorReport report = Delivery::Get().TakeErrors();
  EXPECT_EQ(report.count, 3U);
  EXPECT_THAT(report.last.message(),
              HasSubstr("callback 'test.tap' failed on device 0: a record is lost: cuEventRecord on "
                        "device 0 failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_EQ(callback->stats().calls(), 1U);
  EXPECT_EQ(callback->stats().drops.load(), 3U);
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_EQ(UnderWay().records, 0U);
}

TEST_F(CudaTapErrorsTest, DeadContextReleasesAProgramThatWaitsForRoomAndLeavesOtherDevicesAlone) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(BytesOnDevice(3 << 20));
  const auto site = NewTap(frame);
  FrameBuilder other = Frame();
  other.Arg(OnDevice({}, {1.0F}, 1));
  const auto other_site = NewTap(other, 1);
  fake()->hold();
  for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  std::thread program(
      [&] { EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)")); });
  SpinUntil([] { return UnderWay().blocked > 0; });
  BreakContext();
  program.join();
  fake()->release();
  ASSERT_THAT(other_site->Execute(other), IsOk());
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 1U);
}

TEST_F(CudaTapErrorsTest, ValueThatIsRefusedFailsTheNextTapOrTheBarrier) {
  const auto refuser = BindRefuser();
  FrameBuilder frame = Frame("test.refuser");
  frame.Arg(OnDevice({2}, {1.0F, NAN}));
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk()) << "the value has not arrived";
  SpinUntil([] { return UnderWay().records == 0; });
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kInternal, "value 0 is refused (found when the program had gone on)"));
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  const DeliveryErrorReport report = Delivery::Get().TakeErrors();
  EXPECT_EQ(report.count, 1U);
  EXPECT_THAT(report.last.message(), HasSubstr("value 1 is refused (found when the program had gone on)"));
}

TEST_F(CudaTapErrorsTest, FailuresOfWhichNoProgramWasToldAreAllCounted) {
  const auto refuser = BindRefuser();
  FrameBuilder frame = Frame("test.refuser");
  frame.Arg(OnDevice({}, {NAN}));
  const auto site = NewTap(frame);
  fake()->hold();
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  fake()->release();
  Barrier();
  EXPECT_EQ(Delivery::Get().TakeErrors().count, 3U);
}

TEST_F(CudaTapErrorsTest, DeferredFailureIsANumberOnTheDevice) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  TestBuffer number = OnDevice<int32_t>({}, {0});
  frame.Int64Attr("deferred", 1).StringAttr("leaves", "a\nb").Arg(OnDevice({}, {1.0F})).Ret(number);
  ASSERT_THAT(NewTap(frame)->Execute(frame), IsOk());
  EXPECT_NE(Read<int32_t>(number)[0], 0);
}

TEST_F(CudaTapErrorsTest, AThreadThatCouldNotBeStartedIsStartedByTheNextTapOrABarrier) {
  const auto callback = Bind();
  std::vector<float> values;
  Collect(*callback, values);
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  const auto device = DeviceTaps::Get().On(0);  // Keeps the device, and with it the driver's own threads.
  const auto fail = [&] {
    Delivery::Get().Park();
    const NoThreads none;
    EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "cannot start the thread 'callout-device'"));
    EXPECT_THROW((void)Delivery::Get().Drain(kForever), std::system_error);
  };
  fail();
  Barrier();
  EXPECT_THAT(values, ElementsAre(1, 1)) << "what the device wrote is not lost";
  fail();
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_THAT(values, ElementsAre(1, 1, 1, 1));
}

TEST_F(CudaTapErrorsTest, NothingIsAskedOfTheDriverInAForkedChild) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({}, {1.0F}));
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Status status = site->Execute(frame);
    const bool refused = status.kind() == StatusKind::kFork;
    DeviceTaps& taps = DeviceTaps::Get();
    taps.Park();
    _exit(refused && taps.Flush(Upstream::kAllDevices, kForever).empty() && taps.Close() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// Uses a delivery of its own, because the tests shut it down.
class CudaTapShutdownTest : public CudaTapTest {
 protected:
  DeviceSending Send(const callout_buffer& buffer) { return {.buffers = {&buffer, 1}, .stream = stream()}; }

  Delivery delivery_;
};

TEST_F(CudaTapShutdownTest, CountsWhatIsUnderWayAndTakesNothingMore) {
  DeviceTaps taps(delivery_);
  const auto callback = std::make_shared<FakeCallback>("CudaTapShutdownTest.counts");
  const auto site = MakeSite(callback);
  TestBuffer value = OnDevice({}, {1.0F});
  const callout_buffer view = value.view();
  fake()->hold();
  for (int i = 0; i < 2; ++i) ASSERT_THAT(taps.Take(*site, Send(view)), IsOk());
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 2U);
  EXPECT_EQ(delivery_.RunningThreads(), 0);
  EXPECT_THAT(taps.Take(*site, Send(view)), IsOk());
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  fake()->release();
}

TEST_F(CudaTapShutdownTest, WaitsForWhatArrivesInTime) {
  DeviceTaps taps(delivery_);
  const auto callback = std::make_shared<FakeCallback>("CudaTapShutdownTest.waits");
  const auto site = MakeSite(callback);
  TestBuffer value = OnDevice({}, {1.0F});
  const callout_buffer view = value.view();
  for (int i = 0; i < 100; ++i) ASSERT_THAT(taps.Take(*site, Send(view)), IsOk());
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
  EXPECT_EQ(callback->stats().calls(), 100U);
}

TEST_F(CudaTapShutdownTest, ReleasesAProgramThatWaitsForRoom) {
  DeviceTaps taps(delivery_, {.ring_bytes = 4096});
  const auto callback = std::make_shared<FakeCallback>("CudaTapShutdownTest.releases");
  const auto site = MakeSite(callback);
  TestBuffer value = BytesOnDevice(1500);
  const callout_buffer view = value.view();
  fake()->hold();
  for (int i = 0; i < 2; ++i) ASSERT_THAT(taps.Take(*site, Send(view)), IsOk());
  std::thread program([&] { EXPECT_THAT(taps.Take(*site, Send(view)), IsOk()); });
  SpinUntil([&] { return taps.Statistics()[0].blocked == 1; });
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 3U);
  program.join();
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  fake()->release();
}

}  // namespace
}  // namespace callout::internal
