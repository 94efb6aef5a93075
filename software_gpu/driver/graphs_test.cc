// SPDX-License-Identifier: Apache-2.0
//
// Tests graphs that are made node by node. Each comment begins with the section of CUDA's documents that states the
// rule.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "driver/graph_fixture.h"

namespace callout::software_gpu {
namespace {

using GraphTest = GraphFixture;

// Programming Guide, CUDA Graphs: an operation runs when the operations on which it depends are done.
TEST_F(GraphTest, NodesRunBehindTheirDependencies) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode last = Append(graph, 4);
  CUgraphNode left = Append(graph, 2, {first});
  CUgraphNode right = Append(graph, 3, {first});
  const CUgraphNode from[] = {left, right};
  const CUgraphNode to[] = {last, last};
  ASSERT_EQ(cuGraphAddDependencies(graph, from, to, nullptr, 2), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  Run(exec);
  EXPECT_EQ(Log(), (Words{1, 2, 3, 4}));
}

TEST_F(GraphTest, AMissingEdgeShowsInARandomOrder) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  for (uint32_t value = 2; value < 8; ++value) Append(graph, value, {first});
  CUgraphExec exec = Instantiate(graph);
  software_gpu_control()->shuffle_graphs(7);
  bool ordered = true;
  for (int launch = 0; launch < 20; ++launch) {
    Clear();
    Run(exec);
    const Words log = Log();
    ASSERT_EQ(log.size(), 7U);
    EXPECT_EQ(log[0], 1U);
    ordered = ordered && std::is_sorted(log.begin(), log.end());
  }
  EXPECT_FALSE(ordered);
}

// Driver API, cuGraphAddKernelNode: the parameters are copied when the node is made.
TEST_F(GraphTest, KernelNodesKeepACopyOfTheirParameters) {
  CUgraph graph = Graph();
  Parameters parameters{log_, 5};
  const CUDA_KERNEL_NODE_PARAMS params = Kernel("append", parameters);
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
  parameters.second = 6;
  CUDA_KERNEL_NODE_PARAMS read = {};
  ASSERT_EQ(cuGraphKernelNodeGetParams(node, &read), CUDA_SUCCESS);
  EXPECT_EQ(*static_cast<uint32_t*>(read.kernelParams[1]), 5U);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), Words{5});
}

// Programming Guide, CUDA Graphs, memory nodes: a graph holds addresses, and each launch reads the memory there.
TEST_F(GraphTest, PageableMemoryIsReadAtEachLaunch) {
  CUgraph graph = Graph();
  std::vector<uint32_t> source = {1, 42};
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = source.data();
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = log_;
  copy.WidthInBytes = 8;
  copy.Height = copy.Depth = 1;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context_), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  source[1] = 43;
  Run(exec);
  EXPECT_EQ(Log(), Words{43});
  source[1] = 44;
  Run(exec);
  EXPECT_EQ(Log(), Words{44});
}

// Driver API, cuMemcpy3D: pitch and height determine the address of element (x, y, z).
TEST_F(GraphTest, CopiesOfBoxesFollowPitchAndHeight) {
  CUgraph graph = Graph();
  std::vector<unsigned char> box(2 * 3 * 4);
  for (size_t i = 0; i < box.size(); ++i) box[i] = static_cast<unsigned char>(i);
  std::vector<unsigned char> out(8, 0xFF);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = box.data();
  copy.srcPitch = 4;
  copy.srcHeight = 3;
  copy.srcXInBytes = 1;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = 2;
  copy.dstHeight = 2;
  copy.WidthInBytes = 2;
  copy.Height = 2;
  copy.Depth = 2;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context_), CUDA_SUCCESS);
  Run(Instantiate(graph));
  EXPECT_EQ(out, (std::vector<unsigned char>{5, 6, 9, 10, 17, 18, 21, 22}));
  copy.srcPitch = 2;
  EXPECT_EQ(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context_), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, CUDA_MEMSET_NODE_PARAMS: elements of 1, 2 or 4 bytes; rows lie a pitch apart.
TEST_F(GraphTest, SetsWriteElementsRowByRow) {
  CUgraph graph = Graph();
  CUDA_MEMSET_NODE_PARAMS set = {.dst = log_, .pitch = 8, .value = 1, .elementSize = 4, .width = 1, .height = 3};
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context_), CUDA_SUCCESS);
  Run(Instantiate(graph));
  std::vector<uint32_t> words(6);
  ASSERT_EQ(cuMemcpyDtoHAsync(words.data(), log_, 24, stream_), CUDA_SUCCESS);
  EXPECT_EQ(words, (Words{1, 0, 1, 0, 1, 0}));
  set.elementSize = 3;
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, HostNodesMustNotCallTheDriver) {
  CUgraph graph = Graph();
  CUresult seen = CUDA_SUCCESS;
  const CUDA_HOST_NODE_PARAMS params = {[](void* out) {
                                          int count = 0;
                                          *static_cast<CUresult*>(out) = cuDeviceGetCount(&count);
                                        },
                                        &seen};
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddHostNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
  Run(Instantiate(graph));
  // Driver API, cuLaunchHostFunc: the host function must not make any CUDA API calls.
  EXPECT_EQ(seen, CUDA_ERROR_NOT_PERMITTED);
}

// Driver API, cuGraphDestroyNode: the node's edges are removed with it.
TEST_F(GraphTest, ADestroyedNodeTakesItsEdges) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode second = Append(graph, 2, {first});
  ASSERT_EQ(cuGraphDestroyNode(first), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroyNode(first), CUDA_ERROR_INVALID_VALUE);
  size_t count = 0;
  ASSERT_EQ(cuGraphNodeGetDependencies(second, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0U);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), Words{2});
}

// Driver API, cuGraphAddChildGraphNode: the child is cloned; later changes of the original do not reach the node.
TEST_F(GraphTest, ChildGraphsAreCopies) {
  CUgraph child = Graph();
  Append(child, 1);
  CUgraph graph = Graph();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child), CUDA_SUCCESS);
  Append(graph, 2, {node});
  Append(child, 9);
  CUgraph embedded = nullptr;
  ASSERT_EQ(cuGraphChildGraphNodeGetGraph(node, &embedded), CUDA_SUCCESS);
  EXPECT_NE(embedded, child);
  // The embedded graph belongs to the node.
  EXPECT_EQ(cuGraphDestroy(embedded), CUDA_ERROR_INVALID_VALUE);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), (Words{1, 2}));
}

// Driver API, CUgraphChildGraphNodeOwnership: a moved graph belongs to the parent from then on.
TEST_F(GraphTest, MovedChildGraphsBelongToTheirParent) {
  CUgraph child = Graph();
  Append(child, 1);
  CUgraph graph = Graph();
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph.graph = child;
  params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, child, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddNode(&node, Graph(), nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
  Append(child, 2, {});
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), (Words{1, 2}));
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  size_t count = 0;
  EXPECT_EQ(cuGraphGetNodes(child, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, ClonesAreFoundNodeByNode) {
  CUgraph graph = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraph clone = nullptr;
  ASSERT_EQ(cuGraphClone(&clone, graph), CUDA_SUCCESS);
  CUgraphNode found = nullptr;
  ASSERT_EQ(cuGraphNodeFindInClone(&found, node, clone), CUDA_SUCCESS);
  EXPECT_NE(found, node);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  Run(Instantiate(clone));
  EXPECT_EQ(Log(), Words{1});
}

// Driver API, cuGraphAddEventRecordNode: the event is recorded when the node runs, and a cuStreamWaitEvent after the
// launch waits for that record.
TEST_F(GraphTest, EventNodesOrderOtherStreams) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUgraph graph = Graph();
  CUgraphNode work = Append(graph, 1);
  CUgraphNode record = nullptr;
  ASSERT_EQ(cuGraphAddEventRecordNode(&record, graph, &work, 1, event), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  software_gpu_control()->hold();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(other, 2), CUDA_SUCCESS);
  software_gpu_control()->release();
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(Log(), (Words{1, 2}));
}

TEST_F(GraphTest, WaitNodesWaitForOtherStreams) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUgraph graph = Graph();
  CUgraphNode wait = nullptr;
  ASSERT_EQ(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, event), CUDA_SUCCESS);
  Append(graph, 2, {wait});
  CUgraphExec exec = Instantiate(graph);
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  software_gpu_control()->hold();
  ASSERT_EQ(LaunchAppend(other, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, other), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  software_gpu_control()->release();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Log(), (Words{1, 2}));
}

// Driver API, cuStreamBatchMemOp: a batch writes values and waits for values.
TEST_F(GraphTest, BatchesWriteAndWaitForValues) {
  CUgraph graph = Graph();
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = word_;
  operations[0].writeValue.value = 3;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = word_;
  operations[1].waitValue.value = 3;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context_, 2, operations, 0};
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
  Append(graph, 1, {node});
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), Words{1});
  operations[0].writeValue.address = word_ + 1;
  EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, NodesThatThereAreNotAreRefusedByName) {
  CUgraph graph = Graph();
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_NE(std::string(software_gpu_control()->log()).find("refused: a node of type semaphore wait"),
            std::string::npos);
  CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation), CUDA_ERROR_NOT_SUPPORTED);
}

// Driver API, cuGraphAddNode: reserved bytes must be zero.
TEST_F(GraphTest, ReservedFieldsAreZero) {
  CUgraph graph = Graph();
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  params.reserved2 = 1;
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, ParametersAreReadBackAsTheyWereGiven) {
  CUgraph graph = Graph();
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset = {log_, 0, 7, 4, 2, 1, context_};
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_SUCCESS);
  CUgraphNodeParams read = {};
  ASSERT_EQ(cuGraphNodeGetParams(node, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.type, CU_GRAPH_NODE_TYPE_MEMSET);
  EXPECT_EQ(read.memset.dst, log_);
  EXPECT_EQ(read.memset.value, 7U);
  EXPECT_EQ(read.memset.width, 2U);
  EXPECT_EQ(read.memset.ctx, context_);
  params.memset.value = 8;
  ASSERT_EQ(cuGraphNodeSetParams(node, &params), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeGetParams(node, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.memset.value, 8U);
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  EXPECT_EQ(cuGraphNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, DotFilesNameKernelsAndEdges) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  Append(graph, 2, {first});
  const std::string path = testing::TempDir() + "/graph.dot";
  ASSERT_EQ(cuGraphDebugDotPrint(graph, path.c_str(), 0), CUDA_SUCCESS);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("digraph"), std::string::npos);
  EXPECT_NE(text.str().find("append"), std::string::npos);
  EXPECT_NE(text.str().find(" -> "), std::string::npos);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace callout::software_gpu
