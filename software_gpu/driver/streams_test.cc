// SPDX-License-Identifier: Apache-2.0
//
// Tests streams, events and host functions (Driver API, Stream Management, Event Management, Stream synchronization
// behavior).
#include <cstdlib>
#include <functional>

#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

class StreamTest : public DriverFixture {
 protected:
  static CUevent Event(unsigned int flags = CU_EVENT_DEFAULT) {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
    return event;
  }
};

// Stream synchronization behavior: the legacy default stream waits for all blocking streams, and they wait for it.
TEST_F(StreamTest, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  CUstream const first = Stream(CU_STREAM_DEFAULT);
  CUstream const last = Stream(CU_STREAM_DEFAULT);
  Close(first);
  ASSERT_EQ(LaunchAppend(first, 1), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(CU_STREAM_LEGACY, 2), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(last, 3), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(last), CUDA_ERROR_NOT_READY);
  Open();
  EXPECT_EQ(Log(), (Words{1, 2, 3}));
}

// CU_STREAM_NON_BLOCKING: the stream does not synchronize with the legacy default stream.
TEST_F(StreamTest, NonBlockingStreamsDoNotWaitForTheLegacyStream) {
  Close(stream_);
  ASSERT_EQ(LaunchAppend(stream_, 2), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(nullptr, 1), CUDA_SUCCESS);
  // The call returns although stream_ cannot go on.
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  Open();
  EXPECT_EQ(Log(), (Words{1, 2}));
}

// CU_STREAM_PER_THREAD: each thread has a stream of its own, which is blocking.
TEST_F(StreamTest, PerThreadStreamsAreBlockingAndEachThreadsOwn) {
  Close(CU_STREAM_PER_THREAD);
  ASSERT_EQ(LaunchAppend(CU_STREAM_PER_THREAD, 2), CUDA_SUCCESS);
  std::thread([this] {
    ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(LaunchAppend(CU_STREAM_PER_THREAD, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  }).join();
  ASSERT_EQ(LaunchAppend(CU_STREAM_LEGACY, 3), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  Open();
  EXPECT_EQ(Log(), (Words{1, 2, 3}));
}

// cuStreamCreateWithPriority: lower numbers are greater priorities; numbers outside of the range are clamped.
TEST_F(StreamTest, PrioritiesAreClampedToTheirRange) {
  int least = 1;
  int greatest = 1;
  ASSERT_EQ(cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, least);
  const auto priority = [](int wanted) {
    CUstream stream = nullptr;
    int given = 99;
    EXPECT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, wanted), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamGetPriority(stream, &given), CUDA_SUCCESS);
    return given;
  };
  EXPECT_EQ(priority(greatest + 1), greatest + 1);
  EXPECT_EQ(priority(greatest - 7), greatest);
  EXPECT_EQ(priority(7), least);
  EXPECT_EQ(cuCtxGetStreamPriorityRange(nullptr, nullptr), CUDA_SUCCESS);
}

// cuStreamDestroy returns at once; queued work still runs.
TEST_F(StreamTest, WorkOfADestroyedStreamIsRun) {
  CUstream const stream = Stream();
  CUevent const event = Event();
  Close(stream);
  ASSERT_EQ(LaunchAppend(stream, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  Open();
  ASSERT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(Log(), Words{1});
}

// Programming Guide, Concurrent execution between host and device: launches return before they run, until the queue is
// full and a launch waits for room.
TEST_F(StreamTest, ALaunchWaitsForRoomInAFullQueue) {
  constexpr int kLaunches = 1500;
  std::atomic<int> launched = 0;
  Close(stream_);
  std::thread launcher([&] {
    ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    CUfunction const append = Function(module_, "append");
    for (; launched < kLaunches; ++launched) {
      ASSERT_EQ(LaunchFunction(append, stream_, word_, static_cast<uint32_t>(launched.load())), CUDA_SUCCESS);
    }
  });
  // The queue of the closed gate has room for a fixed number of launches.
  constexpr int kRoom = 1023;
  while (software_gpu_control()->calls("cuLaunchKernel") < kRoom + 1) std::this_thread::yield();
  // Other streams are not held up. These calls give the launcher enough time to go on if it could.
  CUstream const other = Stream();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(launched, kRoom);
  EXPECT_EQ(software_gpu_control()->calls("cuLaunchKernel"), kRoom + 1);
  Open();
  launcher.join();
  const Words log = Log();
  ASSERT_EQ(log.size(), static_cast<size_t>(kLaunches));
  for (int i = 0; i < kLaunches; ++i) ASSERT_EQ(log[static_cast<size_t>(i)], static_cast<uint32_t>(i));
}

// cuLaunchHostFunc: the function runs in the order of its stream, and must not call CUDA.
TEST_F(StreamTest, HostFunctionsRunInOrderAndMayNotCallTheDriver) {
  struct Seen {
    std::atomic<uint32_t>* value;
    uint32_t before = 0;
    CUresult allocation = CUDA_SUCCESS;
    CUresult query = CUDA_SUCCESS;
  } seen = {gate_};
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, reinterpret_cast<CUdeviceptr>(gate_), 5), CUDA_SUCCESS);
  const CUhostFn function = [](void* data) {
    auto* const own = static_cast<Seen*>(data);
    own->before = own->value->load();
    CUdeviceptr memory = 0;
    own->allocation = cuMemAlloc(&memory, 16);
    own->query = cuStreamQuery(nullptr);
  };
  ASSERT_EQ(cuLaunchHostFunc(stream_, function, &seen), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchHostFunc(stream_, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(seen.before, 5U);
  EXPECT_EQ(seen.allocation, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(seen.query, CUDA_ERROR_NOT_PERMITTED);
}

// cuStreamAddCallback: the callback is called after an error too, with the error's code; a function of cuLaunchHostFunc
// is not.
TEST_F(StreamTest, CallbacksAreToldOfErrors) {
  CUresult told = CUDA_SUCCESS;
  bool called = false;
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(stream_, [](void* data) { *static_cast<bool*>(data) = true; }, &called), CUDA_SUCCESS);
  ASSERT_EQ(
      cuStreamAddCallback(
          stream_, [](CUstream, CUresult status, void* data) { *static_cast<CUresult*>(data) = status; }, &told, 0),
      CUDA_SUCCESS);
  Open();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(told, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(called);
}

// cuEventElapsedTime: the time is known when both events have happened.
TEST_F(StreamTest, TheTimeBetweenEventsIsKnownWhenBothHappened) {
  CUevent const start = Event();
  CUevent const end = Event();
  CUevent const untimed = Event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuEventRecord(start, stream_), CUDA_SUCCESS);
  Close(stream_);
  ASSERT_EQ(cuEventRecord(end, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(untimed, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(start), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

// cuEventQuery, cuStreamWaitEvent: an event that was never recorded counts as having happened. cuEventRecord: a later
// record replaces an earlier one, but earlier waits still wait for the earlier record.
TEST_F(StreamTest, WaitsAreForTheLatestRecord) {
  CUevent const event = Event();
  CUstream const waiter = Stream();
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(waiter, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(waiter), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(waiter, event, 0), CUDA_SUCCESS);
  Close(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(waiter, 2), CUDA_SUCCESS);
  // The first record has happened, and the second has not.
  ASSERT_EQ(cuStreamSynchronize(waiter), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  Open();
  EXPECT_EQ(Log(), (Words{1, 2}));
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
}

// CALLOUT_SOFTWARE_GPU_DELAYS of software_gpu.h: ordered work keeps its order, whatever the delays are.
class DelaysTest : public StreamTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("CALLOUT_SOFTWARE_GPU_DELAYS", GetParam(), 1), 0);
    StreamTest::SetUp();
  }
  void TearDown() override {
    StreamTest::TearDown();
    unsetenv("CALLOUT_SOFTWARE_GPU_DELAYS");
  }
};

TEST_P(DelaysTest, DelaysDoNotChangeResults) {
  CUstream const streams[] = {Stream(), Stream(CU_STREAM_DEFAULT), Stream()};
  CUevent const event = Event(CU_EVENT_DISABLE_TIMING);
  Words expected;
  for (uint32_t round = 0; round < 20; ++round) {
    for (CUstream stream : streams) {
      ASSERT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
      for (int twice = 0; twice < 2; ++twice) {
        expected.push_back(static_cast<uint32_t>(expected.size()));
        ASSERT_EQ(LaunchAppend(stream, expected.back()), CUDA_SUCCESS);
      }
      ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    }
  }
  EXPECT_EQ(Log(), expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DelaysTest, testing::Values("1", "2", "3"));

}  // namespace
}  // namespace callout::software_gpu
