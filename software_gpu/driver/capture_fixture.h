// SPDX-License-Identifier: Apache-2.0
//
// Fixture for tests of captures: a stream to record, one to fork to, and events.
#pragma once

#include <cstdint>

#include "driver/graph_fixture.h"

namespace callout::software_gpu {

class CaptureFixture : public GraphFixture {
 protected:
  void SetUp() override {
    GraphFixture::SetUp();
    ASSERT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&joined_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }

  void Begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
  }

  CUresult End(CUgraph* graph) { return cuStreamEndCapture(stream_, graph); }

  // Ends a recording that yields no graph, and returns the result of cuStreamEndCapture.
  CUresult EndWithout() {
    CUgraph graph = Marker();
    const CUresult result = End(&graph);
    if (result != CUDA_SUCCESS) {
      EXPECT_EQ(graph, nullptr);
    }
    return result;
  }

  static CUgraph Marker() { return reinterpret_cast<CUgraph>(uintptr_t{8}); }

  CUstreamCaptureStatus Status(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status;
  }

  CUgraphNodeType OnlyType(CUgraph graph) {
    CUgraphNode node = nullptr;
    size_t count = 1;
    EXPECT_EQ(cuGraphGetNodes(graph, &node, &count), CUDA_SUCCESS);
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    EXPECT_EQ(cuGraphNodeGetType(node, &type), CUDA_SUCCESS);
    return type;
  }

  CUstream other_ = nullptr;
  CUevent event_ = nullptr;
  CUevent joined_ = nullptr;
};

}  // namespace callout::software_gpu
