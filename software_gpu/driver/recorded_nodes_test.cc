// SPDX-License-Identifier: Apache-2.0
//
// Tests which nodes the calls in a recording become (Driver API, Stream Management; CUgraphNodeType).
#include <string>

#include "driver/capture_fixture.h"

namespace callout::software_gpu {
namespace {

using RecordedNodesTest = CaptureFixture;

TEST_F(RecordedNodesTest, CallsBecomeNodesOfTheirType) {
  const auto record = [&](auto call) {
    Begin();
    EXPECT_EQ(call(), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(End(&graph), CUDA_SUCCESS);
    return graph == nullptr ? CU_GRAPH_NODE_TYPE_EMPTY : OnlyType(graph);
  };
  static uint32_t host = 0;
  EXPECT_EQ(record([&] { return cuMemcpyHtoDAsync(word_, &host, 4, stream_); }), CU_GRAPH_NODE_TYPE_MEMCPY);
  EXPECT_EQ(record([&] { return cuMemcpyDtoHAsync(&host, word_, 4, stream_); }), CU_GRAPH_NODE_TYPE_MEMCPY);
  EXPECT_EQ(record([&] { return cuMemcpyDtoDAsync(word_, log_, 4, stream_); }), CU_GRAPH_NODE_TYPE_MEMCPY);
  EXPECT_EQ(record([&] { return cuMemsetD8Async(word_, 0, 4, stream_); }), CU_GRAPH_NODE_TYPE_MEMSET);
  EXPECT_EQ(record([&] { return LaunchAppend(stream_, 1); }), CU_GRAPH_NODE_TYPE_KERNEL);
  EXPECT_EQ(record([&] { return cuLaunchHostFunc(stream_, [](void*) {}, nullptr); }), CU_GRAPH_NODE_TYPE_HOST);
  EXPECT_EQ(record([&] { return cuStreamWriteValue32(stream_, word_, 1, 0); }), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  // CUevent_record_flags and CUevent_wait_flags: external records and waits are nodes, not edges.
  EXPECT_EQ(record([&] { return cuEventRecordWithFlags(event_, stream_, CU_EVENT_RECORD_EXTERNAL); }),
            CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  EXPECT_EQ(record([&] { return cuStreamWaitEvent(stream_, event_, CU_EVENT_WAIT_EXTERNAL); }),
            CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  EXPECT_EQ(cuEventRecordWithFlags(event_, stream_, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event_, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
}

// Programming Guide, Creating a Graph Using Stream Capture: host memory, pageable or not, is read when the graph runs.
// Outside of a recording, a copy from pageable memory reads it at once.
TEST_F(RecordedNodesTest, RecordedCopiesReadPageableMemoryWhenTheyRun) {
  uint32_t words[2] = {1, 5};
  Begin();
  ASSERT_EQ(cuMemcpyHtoDAsync(log_, words, sizeof(words), stream_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  words[1] = 6;
  CUgraphExec exec = Instantiate(graph);
  Run(exec);
  EXPECT_EQ(Log(), Words{6});
  words[1] = 7;
  software_gpu_control()->hold();
  ASSERT_EQ(cuMemcpyHtoDAsync(log_, words, sizeof(words), stream_), CUDA_SUCCESS);
  words[1] = 8;
  software_gpu_control()->release();
  EXPECT_EQ(Log(), Words{7});
}

TEST_F(RecordedNodesTest, CooperativeLaunchesStayCooperative) {
  Parameters parameters{log_, 1};
  Begin();
  ASSERT_EQ(cuLaunchCooperativeKernel(Function("append"), 1, 1, 1, 1, 1, 1, 0, stream_, parameters.pointers),
            CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  CUgraphNode node = nullptr;
  size_t count = 1;
  ASSERT_EQ(cuGraphGetNodes(graph, &node, &count), CUDA_SUCCESS);
  CUkernelNodeAttrValue value = {};
  ASSERT_EQ(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value), CUDA_SUCCESS);
  EXPECT_EQ(value.cooperative, 1);
}

// Programming Guide, Programmatic Dependent Launch, Use in CUDA Graphs: launches that may overlap have programmatic
// edges.
TEST_F(RecordedNodesTest, LaunchesThatMayOverlapHaveProgrammaticEdges) {
  Parameters parameters{log_, 2};
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[0].value.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value.priority = -1;
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream_, attributes, 2};
  Begin();
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchKernelEx(&config, Function("append"), parameters.pointers, nullptr), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  CUgraphEdgeData data = {};
  size_t count = 1;
  ASSERT_EQ(cuGraphGetEdges(graph, &from, &to, &data, &count), CUDA_SUCCESS);
  EXPECT_EQ(int{data.type}, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  EXPECT_EQ(int{data.from_port}, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
  CUkernelNodeAttrValue value = {};
  ASSERT_EQ(cuGraphKernelNodeGetAttribute(to, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), CUDA_SUCCESS);
  EXPECT_EQ(value.priority, -1);
  // The recorded node has no attributes that only launches have, so its attributes may be set.
  EXPECT_EQ(cuGraphKernelNodeSetAttribute(to, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), CUDA_SUCCESS);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), (Words{1, 2}));
}

TEST_F(RecordedNodesTest, AttributesThatAreWrongAreRefused) {
  Parameters parameters{log_, 1};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config = {3, 1, 1, 1, 1, 1, 0, stream_, &attribute, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, Function("append"), parameters.pointers, nullptr),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  // CUlaunchAttributeID: this attribute belongs to streams only.
  attribute.id = CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
  EXPECT_EQ(cuLaunchKernelEx(&config, Function("append"), parameters.pointers, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(RecordedNodesTest, ARecordedLaunchIsAChildGraph) {
  CUgraph inner = Graph();
  Append(inner, 1);
  CUgraphExec exec = Instantiate(inner);
  Begin();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(End(&graph), CUDA_SUCCESS);
  EXPECT_EQ(OnlyType(graph), CU_GRAPH_NODE_TYPE_GRAPH);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), Words{1});
}

}  // namespace
}  // namespace callout::software_gpu
