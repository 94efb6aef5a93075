// SPDX-License-Identifier: Apache-2.0
//
// Tests stream capture (Programming Guide, Creating a Graph Using Stream Capture; Driver API, Stream Management).
#include <thread>

#include "driver/capture_fixture.h"

namespace callout::software_gpu {
namespace {

using CaptureTest = CaptureFixture;

TEST_F(CaptureTest, WhatIsRecordedDoesNotRunBeforeItIsLaunched) {
  Begin();
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 2), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  EXPECT_EQ(Log(), Words{});
  CUgraphExec exec = Instantiate(graph);
  Run(exec);
  Run(exec);
  EXPECT_EQ(Log(), (Words{1, 2, 1, 2}));
}

TEST_F(CaptureTest, EventsForkAndJoin) {
  Begin();
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  EXPECT_EQ(Status(other_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(LaunchAppend(other_, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(joined_, other_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream_, joined_, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 3), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  EXPECT_EQ(Status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
  size_t edges = 0;
  ASSERT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, 3U);  // the edges 1 -> 2, 1 -> 3, 2 -> 3
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), (Words{1, 2, 3}));
}

TEST_F(CaptureTest, ForksMustJoinTheOrigin) {
  Begin();
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(other_, 1), CUDA_SUCCESS);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(Status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureTest, OnlyTheOriginEndsIt) {
  Begin();
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(other_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(EndWithout(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

// Driver API, cuStreamBeginCapture: the thread that begins a capture must end it, unless the capture is relaxed.
TEST_F(CaptureTest, AnotherThreadEndsRelaxedOnesOnly) {
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    Begin(mode);
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
      CUgraph graph = nullptr;
      result = End(&graph);
    }).join();
    const bool relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_EQ(result, relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    EXPECT_EQ(EndWithout(), CUDA_ERROR_ILLEGAL_STATE) << "the recording is over either way";
  }
}

// Driver API, cuThreadExchangeStreamCaptureMode: the modes of capture and thread decide whether a call is unsafe.
TEST_F(CaptureTest, UnsafeCallsEndRecordingsByMode) {
  const auto allocate = [&] {
    CUdeviceptr memory = 0;
    return cuMemAlloc(&memory, 16);
  };
  const auto elsewhere = [&] {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
      result = allocate();
    }).join();
    return result;
  };
  Begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(elsewhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(LaunchAppend(stream_, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  Begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(elsewhere(), CUDA_SUCCESS);
  EXPECT_EQ(allocate(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
  EXPECT_EQ(EndWithout(), CUDA_SUCCESS);

  Begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(EndWithout(), CUDA_SUCCESS);
}

TEST_F(CaptureTest, WaitsForAStreamThatIsRecordedEndIt) {
  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// Programming Guide, Prohibited and Unhandled Operations: a context must not be synchronized while one of its streams
// is recorded.
TEST_F(CaptureTest, WaitsForAContextThatIsRecordedEndIt) {
  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// Programming Guide, Prohibited and Unhandled Operations: a recording must not depend on work outside of it.
TEST_F(CaptureTest, EventsOfOtherWorkAreIsolated) {
  ASSERT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
  Begin();
  EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// Programming Guide, Prohibited and Unhandled Operations: separate recordings are not merged.
TEST_F(CaptureTest, RecordingsAreNotMerged) {
  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_EQ(cuStreamBeginCapture(other_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(other_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// Programming Guide, Prohibited and Unhandled Operations: the legacy stream depends on blocking streams.
TEST_F(CaptureTest, TheLegacyStreamIsNotUsedWhileABlockingStreamIsRecorded) {
  EXPECT_EQ(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  // Driver API, cuStreamIsCapturing: the query itself does not end the recording.
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_EQ(cuStreamIsCapturing(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(Status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(LaunchAppend(CU_STREAM_LEGACY, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// Programming Guide, Prohibited and Unhandled Operations: recorded events must not be queried.
TEST_F(CaptureTest, RecordedEventsAreNotAsked) {
  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// Driver API, cuStreamGetCaptureInfo: it returns the graph and the dependencies of the next node.
TEST_F(CaptureTest, InfoTellsGraphAndDependencies) {
  Begin();
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  ASSERT_EQ(cuStreamGetCaptureInfo(stream_, &status, &id, &graph, &nodes, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(count, 1U);
  // While it is recorded, the graph must not be destroyed or instantiated, but nodes may be added.
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode added = Append(graph, 2, {nodes[0]});
  ASSERT_EQ(cuStreamUpdateCaptureDependencies(stream_, &added, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 3), CUDA_SUCCESS);
  CUgraph ended = nullptr;
  ASSERT_EQ(End(&ended), CUDA_SUCCESS);
  EXPECT_EQ(ended, graph);
  Run(Instantiate(ended));
  EXPECT_EQ(Log(), (Words{1, 2, 3}));
  Begin();
  cuuint64_t next = 0;
  ASSERT_EQ(cuStreamGetCaptureInfo(stream_, &status, &next, nullptr, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_NE(next, id);
  EXPECT_EQ(EndWithout(), CUDA_SUCCESS);
}

// Driver API, cuStreamUpdateCaptureDependencies: nodes that were removed from the dependencies are no unjoined work;
// the call works only on a stream that is recorded.
TEST_F(CaptureTest, DependenciesThatWereTakenOutNeedNoJoin) {
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_ERROR_ILLEGAL_STATE);
  Begin();
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamUpdateCaptureDependencies(stream_, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 2), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  size_t edges = 0;
  ASSERT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, 0U);
}

// Driver API, cuStreamBeginCaptureToGraph: the recording adds its nodes to an existing graph.
TEST_F(CaptureTest, RecordingsGoOnInAGraph) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream_, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 2), CUDA_SUCCESS);
  CUgraph ended = nullptr;
  ASSERT_EQ(End(&ended), CUDA_SUCCESS);
  EXPECT_EQ(ended, graph);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), (Words{1, 2}));
}

TEST_F(CaptureTest, AGraphOfACallerOutlivesAFailedRecording) {
  CUgraph graph = Graph();
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream_, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(EndWithout(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CaptureTest, AContextMayEndWhileAStreamIsRecorded) {
  Begin();
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  software_gpu_control()->reset();
  EXPECT_EQ(software_gpu_control()->live(kSoftwareGpuGraph), 0);
}

TEST_F(CaptureTest, DestroyingTheOriginEndsTheRecording) {
  CUstream origin = nullptr;
  ASSERT_EQ(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, origin), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(origin), CUDA_SUCCESS);
  EXPECT_EQ(Status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(software_gpu_control()->live(kSoftwareGpuGraph), 0);
}

}  // namespace
}  // namespace callout::software_gpu
