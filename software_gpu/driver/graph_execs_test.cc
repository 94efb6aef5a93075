// SPDX-License-Identifier: Apache-2.0
//
// Tests how executable graphs are made, updated, launched and destroyed. Each comment begins with the section of CUDA's
// documents that states the rule.
#include <string>

#include "driver/graph_fixture.h"

namespace callout::software_gpu {
namespace {

class GraphExecTest : public GraphFixture {
 protected:
  CUresult SetAppend(CUgraphExec exec, CUgraphNode node, uint32_t value) {
    Parameters parameters{log_, value};
    const CUDA_KERNEL_NODE_PARAMS params = Kernel("append", parameters);
    return cuGraphExecKernelNodeSetParams(exec, node, &params);
  }

  CUgraphExecUpdateResultInfo Update(CUgraphExec exec, CUgraph graph, CUresult code) {
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_EQ(cuGraphExecUpdate(exec, graph, &info), code);
    return info;
  }
};

// Driver API, cuGraphInstantiateWithParams: a cycle is an invalid structure, and the call returns one of the cycle's
// nodes.
TEST_F(GraphExecTest, CyclesAreFoundWhenAGraphIsInstantiated) {
  CUgraph graph = Graph();
  Append(graph, 9);
  CUgraphNode first = Append(graph, 1);
  CUgraphNode second = Append(graph, 2, {first});
  CUgraphNode behind = Append(graph, 3, {second});
  ASSERT_EQ(cuGraphAddDependencies(graph, &second, &first, nullptr, 1), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  EXPECT_TRUE(params.hErrNode_out == first || params.hErrNode_out == second);
  EXPECT_NE(params.hErrNode_out, behind);
}

TEST_F(GraphExecTest, FlagsAreKnownAndReadBack) {
  CUgraph graph = Graph();
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 64), CUDA_ERROR_INVALID_VALUE);
  // CUgraphInstantiate_flags: the upload flag is allowed only for cuGraphInstantiateWithParams.
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
            CUDA_ERROR_NOT_SUPPORTED);
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  params.hUploadStream = stream_;
  ASSERT_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_SUCCESS);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  // Driver API, cuGraphExecGetFlags: the flags do not include the upload.
  cuuint64_t flags = 0;
  ASSERT_EQ(cuGraphExecGetFlags(exec, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, cuuint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY});
}

// Driver API, cuGraphExecKernelNodeSetParams: the call affects later launches only, and not the node of the original
// graph.
TEST_F(GraphExecTest, UpdatesDoNotTouchLaunchesInFlight) {
  CUgraph graph = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  software_gpu_control()->hold();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(SetAppend(exec, node, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  software_gpu_control()->release();
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), (Words{1, 2, 1}));
}

// Driver API, cuGraphLaunch: each launch is ordered behind previous launches of the same executable graph.
TEST_F(GraphExecTest, LaunchesOfOneGraphFollowEachOtherOnTwoStreams) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUgraph graph = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  CUstream other = nullptr;
  CUstream blocked = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  // The first launch waits for a value that is written after the second launch was queued and could have run.
  ASSERT_EQ(cuStreamWaitValue32(stream_, word_, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(SetAppend(exec, node, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, other), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuStreamWriteValue32(blocked, word_, 1, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(Log(), (Words{1, 2}));
}

// Driver API, cuGraphExecDestroy: an executable graph in flight is freed on completion.
TEST_F(GraphExecTest, AGraphMayBeDestroyedInFlight) {
  CUgraph graph = Graph();
  Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  software_gpu_control()->hold();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  software_gpu_control()->release();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Log(), Words{1});
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(software_gpu_control()->live(kSoftwareGpuGraphExec), 0);
}

// Driver API, cuGraphNodeSetEnabled: disabled nodes act as empty ones; kernels, sets and copies can be disabled.
TEST_F(GraphExecTest, DisabledNodesDoNothing) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode empty = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&empty, graph, nullptr, 0), CUDA_SUCCESS);
  Append(graph, 2, {first});
  CUgraphExec exec = Instantiate(graph);
  ASSERT_EQ(cuGraphNodeSetEnabled(exec, first, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphNodeSetEnabled(exec, empty, 0), CUDA_ERROR_INVALID_VALUE);
  Run(exec);
  unsigned int enabled = 1;
  ASSERT_EQ(cuGraphNodeGetEnabled(exec, first, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 0U);
  ASSERT_EQ(SetAppend(exec, first, 3), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeSetEnabled(exec, first, 1), CUDA_SUCCESS);
  Run(exec);
  EXPECT_EQ(Log(), (Words{2, 3, 2}));
}

// Driver API, cuGraphExecKernelNodeSetParams: the node must be one of the graph that was instantiated, and still exist.
TEST_F(GraphExecTest, NodesAreThoseOfTheGraphThatWasInstantiated) {
  CUgraph graph = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  CUgraph other = Graph();
  CUgraphNode foreign = Append(other, 1);
  EXPECT_EQ(SetAppend(exec, foreign, 2), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode late = Append(graph, 1);
  EXPECT_EQ(SetAppend(exec, late, 2), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphDestroyNode(node), CUDA_SUCCESS);
  EXPECT_EQ(SetAppend(exec, node, 2), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, cuGraphExecMemcpyNodeSetParams: old and new copies have one row, in memory of the same kind and context.
TEST_F(GraphExecTest, CopiesKeepTheKindOfTheirMemory) {
  uint32_t host = 7;
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = &host;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = word_;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraph graph = Graph();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context_), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  CUDA_MEMCPY3D changed = copy;
  changed.dstDevice = log_;
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, node, &changed, context_), CUDA_SUCCESS);
  changed = copy;
  changed.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  changed.srcDevice = log_;
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, node, &changed, context_), CUDA_ERROR_INVALID_VALUE);
  changed = copy;
  changed.Height = 2;
  changed.WidthInBytes = changed.srcPitch = changed.dstPitch = 2;
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, node, &changed, context_), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, cuGraphExecMemsetNodeSetParams: for sets with several rows only the address and the value may change.
TEST_F(GraphExecTest, SetsWithRowsKeepTheirShape) {
  CUDA_MEMSET_NODE_PARAMS set = {.dst = log_, .pitch = 8, .value = 1, .elementSize = 4, .width = 1, .height = 2};
  CUgraph graph = Graph();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context_), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  set.value = 2;
  EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, node, &set, context_), CUDA_SUCCESS);
  set.width = 2;
  EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, node, &set, context_), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, cuGraphExecUpdate: the result shows where the topologies differ.
TEST_F(GraphExecTest, UpdatesTellWhereTopologiesDiffer) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode second = Append(graph, 2, {first});
  Append(graph, 3, {second});
  CUgraphExec exec = Instantiate(graph);

  CUgraph fewer = Graph();
  Append(fewer, 1);
  CUgraphExecUpdateResultInfo info = Update(exec, fewer, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, nullptr);

  CUgraph edges = Graph();
  CUgraphNode one = Append(edges, 1);
  CUgraphNode two = Append(edges, 2, {one});
  CUgraphNode three = Append(edges, 3, {one});
  info = Update(exec, edges, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, three);
  EXPECT_EQ(info.errorFromNode, one);

  CUgraph count = Graph();
  one = Append(count, 1);
  two = Append(count, 2, {one});
  three = Append(count, 3, {one, two});
  info = Update(exec, count, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.errorNode, three);
  EXPECT_EQ(info.errorFromNode, nullptr);
}

TEST_F(GraphExecTest, UpdatesTellWhichNodeHasAnotherType) {
  CUgraph graph = Graph();
  Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  CUgraph other = Graph();
  CUgraphNode empty = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&empty, other, nullptr, 0), CUDA_SUCCESS);
  const auto info = Update(exec, other, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(info.errorNode, empty);
  Run(exec);
  EXPECT_EQ(Log(), Words{1});
}

// Driver API, cuGraphExecUpdate: a cooperative node must stay cooperative, and the priority stays where the flag asks
// for that.
TEST_F(GraphExecTest, UpdatesKeepCooperationAndPriority) {
  CUgraph graph = Graph();
  Append(graph, 1);
  CUgraph other = Graph();
  CUgraphNode node = Append(other, 1);
  CUkernelNodeAttrValue value = {};
  value.priority = -1;
  ASSERT_EQ(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY), CUDA_SUCCESS);
  auto info = Update(exec, other, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  EXPECT_EQ(info.errorNode, node);
  CUgraphExec plain = Instantiate(graph);
  info = Update(plain, other, CUDA_SUCCESS);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  value = {};
  value.cooperative = 1;
  ASSERT_EQ(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value), CUDA_SUCCESS);
  info = Update(plain, other, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
}

TEST_F(GraphExecTest, AnUpdateGivesTheParametersOfTheOtherGraph) {
  CUgraph graph = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  CUgraph other = Graph();
  Append(other, 2);
  EXPECT_EQ(Update(exec, other, CUDA_SUCCESS).result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(other), CUDA_SUCCESS);
  Run(exec);
  // The nodes of the first graph still identify the executable graph's nodes.
  ASSERT_EQ(SetAppend(exec, node, 3), CUDA_SUCCESS);
  Run(exec);
  EXPECT_EQ(Log(), (Words{2, 3}));
}

// Driver API, cuGraphExecChildGraphNodeSetParams: the new child must have the topology of the old one.
TEST_F(GraphExecTest, ChildrenOfTheSameTopologyAreExchanged) {
  CUgraph child = Graph();
  CUgraphNode below = Append(child, 1);
  Append(child, 2, {below});
  CUgraph graph = Graph();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  CUgraph same = Graph();
  below = Append(same, 3);
  Append(same, 4, {below});
  ASSERT_EQ(cuGraphExecChildGraphNodeSetParams(exec, node, same), CUDA_SUCCESS);
  Run(exec);
  EXPECT_EQ(Log(), (Words{3, 4}));
  CUgraph unlike = Graph();
  Append(unlike, 3);
  EXPECT_EQ(cuGraphExecChildGraphNodeSetParams(exec, node, unlike), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphExecTest, KernelsOfUnloadedLibrariesAreNotLaunched) {
  CUgraph graph = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraphExec exec = Instantiate(graph);
  ASSERT_EQ(cuLibraryUnload(library_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_HANDLE);
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(params.hErrNode_out, node);
}

TEST_F(GraphExecTest, AFailingNodeEndsTheLaunchAndTheContext) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = Function("fault");
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  CUgraphNode fault = nullptr;
  ASSERT_EQ(cuGraphAddKernelNode(&fault, graph, &first, 1, &params), CUDA_SUCCESS);
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUgraphNode record = nullptr;
  ASSERT_EQ(cuGraphAddEventRecordNode(&record, graph, &fault, 1, event), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate(graph);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  // A wait for an event that was never recorded must not hang.
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace callout::software_gpu
