// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include "testing/cuda_conformance.h"

namespace callout::internal::cuda {
namespace {

class CaptureConformance : public DriverConformance {
 protected:
  StreamCapture Begin(const Stream& stream) { return Take(StreamCapture::Begin(device(), stream.get())); }
  static void Count(void* count) { ++*static_cast<int*>(count); }
};

TEST_P(CaptureConformance, RecordsAndReplaysEveryNodeEachTime) {
  const Stream stream = NewStream();
  const PinnedMemory pinned = NewPinned(4);
  const DeviceMemory memory = NewDeviceMemory(4);
  auto* const bytes = static_cast<unsigned char*>(pinned.get());
  std::memset(bytes, 0, 4);
  int count = 0;
  StreamCapture capture = Begin(stream);
  EXPECT_THAT(IsCapturing(device(), stream.get()), IsOkAndHolds(true));
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get(), bytes, 1, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemcpyDtoHAsync(bytes + 1, memory.get(), 1, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().LaunchHostFunc(stream.get(), &Count, &count), CUDA_SUCCESS);
  const Graph graph = Take(capture.End());
  EXPECT_THAT(IsCapturing(device(), stream.get()), IsOkAndHolds(false));
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  EXPECT_EQ(count, 0) << "recording runs nothing";
  const GraphExec executable = Take(Instantiate(device(), graph));
  for (unsigned char value = 1; value <= 3; ++value) {
    bytes[0] = value;
    EXPECT_THAT(Launch(device(), executable, stream.get()), IsOk());
    EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
    EXPECT_EQ(bytes[1], value);
  }
  EXPECT_EQ(count, 3);
}

TEST_P(CaptureConformance, FailsWithTheThreadsFirstForbiddenCall) {
  const Stream stream = NewStream();
  StreamCapture capture = Begin(stream);
  EXPECT_THAT(AllocateDevice(device(), 16),
              StatusIs(StatusCode::kFailedPrecondition,
                       "cuMemAlloc of 16 bytes on device 0 failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"));
  EXPECT_EQ(driver().LaunchHostFunc(stream.get(), &Count, nullptr), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_THAT(IsCapturing(device(), stream.get()), IsOkAndHolds(true));
  EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"));
  EXPECT_THAT(IsCapturing(device(), stream.get()), IsOkAndHolds(false));
  EXPECT_THAT(AllocateDevice(device(), 16), IsOk());
}

TEST_P(CaptureConformance, LivesThroughTheEndOfWhatWasMadeBefore) {
  const Stream stream = NewStream();
  DeviceMemory memory = NewDeviceMemory(16);
  PinnedMemory pinned = NewPinned(16);
  Library library = NewLibrary();
  Stream other = NewStream();
  Event event = Take(CreateEvent(device()));
  StreamCapture capture = Begin(stream);
  memory.Reset();
  pinned.Reset();
  library.Reset();
  other.Reset();
  event.Reset();
  EXPECT_THAT(capture.End(), IsOk());
}

TEST_P(CaptureConformance, CannotBeWaitedFor) {
  const Stream stream = NewStream();
  StreamCapture capture = Begin(stream);
  EXPECT_THAT(Synchronize(device(), stream.get()), StatusIs(StatusCode::kFailedPrecondition, "(900)"));
  EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "(901)"));
}

TEST_P(CaptureConformance, LeavesOtherThreadsAlone) {
  const Stream stream = NewStream();
  StreamCapture capture = Begin(stream);
  std::thread([&] { EXPECT_THAT(AllocateDevice(device(), 16), IsOk()); }).join();
  EXPECT_THAT(capture.End(), IsOk());
}

TEST_P(CaptureConformance, IsLostWhenAnotherThreadEndsIt) {
  const Stream stream = NewStream();
  StreamCapture capture = Begin(stream);
  std::thread([&] {
    CUgraph graph = nullptr;
    const ContextScope scope(device());
    EXPECT_EQ(driver().StreamEndCapture(stream.get(), &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_THAT(IsCapturing(device(), stream.get()), IsOkAndHolds(false));
  EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "CUDA_ERROR_ILLEGAL_STATE (401)"));
}

TEST_P(CaptureConformance, IsBegunAndEndedOnce) {
  const Stream stream = NewStream();
  CUgraph graph = nullptr;
  EXPECT_EQ(driver().StreamEndCapture(stream.get(), &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_THAT(StreamCapture::Begin(device(), nullptr),
              StatusIs(StatusCode::kFailedPrecondition, "cuStreamBeginCapture on device 0 failed"));
  {
    const StreamCapture dropped = Begin(stream);
  }
  EXPECT_THAT(IsCapturing(device(), stream.get()), IsOkAndHolds(false));
  StreamCapture capture = Begin(stream);
  EXPECT_EQ(driver().StreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_THAT(capture.End(), IsOk());
}

TEST_P(CaptureConformance, TakesInStreamsThatWaitForItAndWantsThemBack) {
  const Stream origin = NewStream();
  const Stream side = NewStream();
  const Event forked = Take(CreateEvent(device()));
  const Event joined = Take(CreateEvent(device()));
  int count = 0;
  for (const bool join : {true, false}) {
    StreamCapture capture = Begin(origin);
    EXPECT_EQ(driver().LaunchHostFunc(origin.get(), &Count, &count), CUDA_SUCCESS);
    EXPECT_EQ(driver().EventRecord(forked.get(), origin.get()), CUDA_SUCCESS);
    EXPECT_EQ(driver().StreamWaitEvent(side.get(), forked.get(), 0), CUDA_SUCCESS);
    EXPECT_THAT(IsCapturing(device(), side.get()), IsOkAndHolds(true));
    EXPECT_EQ(driver().LaunchHostFunc(side.get(), &Count, &count), CUDA_SUCCESS);
    EXPECT_EQ(driver().EventRecord(joined.get(), side.get()), CUDA_SUCCESS);
    if (!join) {
      EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)"));
      continue;
    }
    EXPECT_EQ(driver().StreamWaitEvent(origin.get(), joined.get(), 0), CUDA_SUCCESS);
    const Graph graph = Take(capture.End());
    EXPECT_THAT(Launch(device(), Take(Instantiate(device(), graph)), origin.get()), IsOk());
    EXPECT_THAT(Synchronize(device(), origin.get()), IsOk());
    EXPECT_EQ(count, 2);
  }
}

TEST_P(CaptureConformance, CannotWaitForWorkOutside) {
  const Stream stream = NewStream();
  const Stream outside = NewStream();
  const Event event = Take(CreateEvent(device()));
  EXPECT_EQ(driver().EventRecord(event.get(), outside.get()), CUDA_SUCCESS);
  StreamCapture capture = Begin(stream);
  EXPECT_EQ(driver().StreamWaitEvent(stream.get(), event.get(), 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "(901)"));
}

TEST_P(CaptureConformance, EventsInItCannotBeAsked) {
  const Stream stream = NewStream();
  const Event event = Take(CreateEvent(device()));
  StreamCapture capture = Begin(stream);
  EXPECT_EQ(driver().EventRecord(event.get(), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().EventQuery(event.get()), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "(901)"));
}

TEST_P(CaptureConformance, OfABlockingStreamForbidsTheLegacyOne) {
  CUstream raw = nullptr;
  ASSERT_EQ(driver().StreamCreate(&raw, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  const Stream blocking(device(), raw);
  StreamCapture capture = Begin(blocking);
  int count = 0;
  EXPECT_EQ(driver().LaunchHostFunc(nullptr, &Count, &count), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_THAT(capture.End(), StatusIs(StatusCode::kFailedPrecondition, "(901)"));
}

TEST_P(CaptureConformance, UpdatesTakeNewParametersButNoNewNodes) {
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(1);
  const auto record = [&](unsigned char value, int times) {
    StreamCapture capture = Begin(stream);
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(driver().MemsetD8Async(memory.get(), value, 1, stream.get()), CUDA_SUCCESS);
    }
    return Take(capture.End());
  };
  const GraphExec executable = Take(Instantiate(device(), record(1, 1)));
  EXPECT_THAT(Update(device(), executable, record(2, 1)), IsOk());
  EXPECT_THAT(Launch(device(), executable, stream.get()), IsOk());
  unsigned char got = 0;
  EXPECT_EQ(driver().MemcpyDtoHAsync(&got, memory.get(), 1, stream.get()), CUDA_SUCCESS);
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  EXPECT_EQ(got, 2);
  EXPECT_THAT(Update(device(), executable, record(3, 2)),
              StatusIs(StatusCode::kFailedPrecondition, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)"));
}

CALLOUT_CUDA_CONFORMANCE(CaptureConformance);

}  // namespace
}  // namespace callout::internal::cuda
