// SPDX-License-Identifier: Apache-2.0
//
// Tests conditional nodes (Programming Guide, Conditional Graph Nodes; Driver API, CUDA_CONDITIONAL_NODE_PARAMS).
#include "driver/graph_fixture.h"

namespace callout::software_gpu {
namespace {

using ConditionalTest = GraphFixture;

TEST_F(ConditionalTest, IfRunsItsBodyWhereTheConditionIsNotZero) {
  CUgraph graph = Graph();
  const CUgraphConditionalHandle handle = Handle(graph);
  CUgraphNode setter = AddSetter(graph, "set_conditional", handle);
  std::vector<CUgraph> bodies;
  CUgraphNode node = AddConditional(graph, handle, CU_GRAPH_COND_TYPE_IF, 2, &bodies, {setter});
  Append(bodies[0], 1);
  Append(bodies[1], 2);
  Append(graph, 3, {node});
  CUgraphExec exec = Instantiate(graph);
  SetWord(5);
  Run(exec);
  SetWord(0);
  Run(exec);
  EXPECT_EQ(Log(), (Words{1, 3, 2, 3}));
}

TEST_F(ConditionalTest, WhileRunsItsBodyUntilTheConditionIsZero) {
  CUgraph graph = Graph();
  const CUgraphConditionalHandle handle = Handle(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  std::vector<CUgraph> bodies;
  CUgraphNode node = AddConditional(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
  CUgraphNode work = Append(bodies[0], 1);
  AddSetter(bodies[0], "count_down", handle, {work});
  Append(graph, 2, {node});
  CUgraphExec exec = Instantiate(graph);
  SetWord(3);
  Run(exec);
  // Each launch assigns the default.
  SetWord(2);
  Run(exec);
  EXPECT_EQ(Log(), (Words{1, 1, 1, 2, 1, 1, 2}));
}

TEST_F(ConditionalTest, SwitchRunsTheBodyOfItsValueOrNone) {
  CUgraph graph = Graph();
  const CUgraphConditionalHandle handle = Handle(graph);
  CUgraphNode setter = AddSetter(graph, "set_conditional", handle);
  std::vector<CUgraph> bodies;
  AddConditional(graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, &bodies, {setter});
  for (uint32_t i = 0; i < 3; ++i) Append(bodies[i], 10 + i);
  CUgraphExec exec = Instantiate(graph);
  for (const uint32_t value : {2U, 0U, 3U, 1U}) {
    SetWord(value);
    Run(exec);
  }
  EXPECT_EQ(Log(), (Words{12, 10, 11}));
}

// Without CU_GRAPH_COND_ASSIGN_DEFAULT a value stays from one launch to the next.
TEST_F(ConditionalTest, ValuesStayWithoutADefault) {
  CUgraph graph = Graph();
  const CUgraphConditionalHandle handle = Handle(graph, 1, 0);
  std::vector<CUgraph> bodies;
  CUgraphNode node = AddConditional(graph, handle, CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  Append(bodies[0], 1);
  AddSetter(graph, "set_conditional", handle, {node});
  CUgraphExec exec = Instantiate(graph);
  SetWord(1);
  Run(exec);
  EXPECT_EQ(Log(), Words{});
  Run(exec);
  EXPECT_EQ(Log(), Words{1});
}

TEST_F(ConditionalTest, BodiesNest) {
  CUgraph graph = Graph();
  const CUgraphConditionalHandle outer = Handle(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  std::vector<CUgraph> bodies;
  AddConditional(graph, outer, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
  CUgraph body = bodies[0];
  // One handle belongs to the body's own graph, the other to the graph above it.
  const CUgraphConditionalHandle inner = Handle(body, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  CUgraphNode count = AddSetter(body, "count_down", outer);
  CUgraphNode node = AddConditional(body, inner, CU_GRAPH_COND_TYPE_IF, 1, &bodies, {count});
  Append(bodies[0], 1);
  Append(body, 2, {node});
  CUgraphExec exec = Instantiate(graph);
  SetWord(2);
  Run(exec);
  EXPECT_EQ(Log(), (Words{1, 2, 1, 2}));
}

TEST_F(ConditionalTest, SizesAreThoseOfTheType) {
  CUgraph graph = Graph();
  const CUgraphConditionalHandle handle = Handle(graph);
  const auto add = [&](CUgraphConditionalNodeType type, unsigned int size) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = context_;
    CUgraphNode node = nullptr;
    return cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params);
  };
  EXPECT_EQ(add(CU_GRAPH_COND_TYPE_IF, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(CU_GRAPH_COND_TYPE_WHILE, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(CU_GRAPH_COND_TYPE_SWITCH, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(CU_GRAPH_COND_TYPE_WHILE, 1), CUDA_SUCCESS);
  // A handle belongs to one node only.
  EXPECT_EQ(add(CU_GRAPH_COND_TYPE_WHILE, 1), CUDA_ERROR_INVALID_VALUE);
}

// Bodies may hold, at any level, kernels, empty nodes, children, sets, copies of device or pinned memory, and
// conditional nodes.
TEST_F(ConditionalTest, BodiesHoldSomeTypesOnly) {
  CUgraph graph = Graph();
  std::vector<CUgraph> bodies;
  AddConditional(graph, Handle(graph), CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  CUgraph body = bodies[0];
  CUgraphNode node = nullptr;
  const CUDA_HOST_NODE_PARAMS host = {[](void*) {}, nullptr};
  EXPECT_EQ(cuGraphAddHostNode(&node, body, nullptr, 0, &host), CUDA_ERROR_NOT_SUPPORTED);
  CUgraph child = Graph();
  ASSERT_EQ(cuGraphAddHostNode(&node, child, nullptr, 0, &host), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, body, nullptr, 0, child), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphNodeParams moved = {};
  moved.type = CU_GRAPH_NODE_TYPE_GRAPH;
  moved.graph.graph = child;
  moved.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  EXPECT_EQ(cuGraphAddNode(&node, body, nullptr, nullptr, 0, &moved), CUDA_ERROR_NOT_SUPPORTED);
  // The refused child still belongs to the caller.
  EXPECT_EQ(cuGraphDestroy(child), CUDA_SUCCESS);
  uint32_t pageable = 0;
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = &pageable;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = word_;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  EXPECT_EQ(cuGraphAddMemcpyNode(&node, body, nullptr, 0, &copy, context_), CUDA_ERROR_NOT_SUPPORTED);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = log_;
  EXPECT_EQ(cuGraphAddMemcpyNode(&node, body, nullptr, 0, &copy, context_), CUDA_SUCCESS);
}

// Driver API, CUgraphNodeType: a graph with a conditional node cannot be cloned or be a child, and has at most one
// executable graph at a time.
TEST_F(ConditionalTest, GraphsWithConditionalNodesAreNotCopied) {
  CUgraph graph = Graph();
  std::vector<CUgraph> bodies;
  AddConditional(graph, Handle(graph), CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  CUgraph clone = nullptr;
  EXPECT_EQ(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
  CUgraph parent = Graph();
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExec exec = Instantiate(graph);
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_SUCCESS);
}

// Driver API, CUgraphInstantiateResult: a handle without a node is an error.
TEST_F(ConditionalTest, HandlesWithoutANodeAreFoundWhenAGraphIsInstantiated) {
  CUgraph graph = Graph();
  Handle(graph);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

// Programming Guide: captures can fill bodies, too.
TEST_F(ConditionalTest, BodiesAreRecorded) {
  CUgraph graph = Graph();
  std::vector<CUgraph> bodies;
  AddConditional(graph, Handle(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream_, bodies[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
  ASSERT_EQ(LaunchAppend(stream_, 1), CUDA_SUCCESS);
  CUgraph recorded = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &recorded), CUDA_SUCCESS);
  EXPECT_EQ(recorded, bodies[0]);
  Run(Instantiate(graph));
  EXPECT_EQ(Log(), Words{1});
}

// Driver API, cuGraphExecUpdate: the rules hold for nodes in bodies, too, and handles' defaults are updated.
TEST_F(ConditionalTest, UpdatesReachBodiesAndDefaults) {
  const auto make = [&](uint32_t value, unsigned int initial) {
    CUgraph graph = Graph();
    std::vector<CUgraph> bodies;
    AddConditional(graph, Handle(graph, initial, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 2, &bodies);
    Append(bodies[0], value);
    Append(bodies[1], value + 1);
    return graph;
  };
  CUgraphExec exec = Instantiate(make(1, 1));
  Run(exec);
  CUgraphExecUpdateResultInfo info = {};
  ASSERT_EQ(cuGraphExecUpdate(exec, make(3, 0), &info), CUDA_SUCCESS);
  Run(exec);
  EXPECT_EQ(Log(), (Words{1, 4}));
}

// The executable graph of the whole also knows the nodes of bodies.
TEST_F(ConditionalTest, NodesOfBodiesAreUpdated) {
  CUgraph graph = Graph();
  std::vector<CUgraph> bodies;
  AddConditional(graph, Handle(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1, &bodies);
  CUgraphNode node = Append(bodies[0], 1);
  CUgraphExec exec = Instantiate(graph);
  Parameters parameters{log_, 2};
  const CUDA_KERNEL_NODE_PARAMS params = Kernel("append", parameters);
  ASSERT_EQ(cuGraphExecKernelNodeSetParams(exec, node, &params), CUDA_SUCCESS);
  Run(exec);
  EXPECT_EQ(Log(), Words{2});
}

}  // namespace
}  // namespace callout::software_gpu
