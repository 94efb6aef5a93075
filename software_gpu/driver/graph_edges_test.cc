// SPDX-License-Identifier: Apache-2.0
//
// Tests edges of graphs, and lists of nodes and edges.
#include "driver/graph_fixture.h"

namespace callout::software_gpu {
namespace {

using GraphEdgesTest = GraphFixture;

// Driver API, cuGraphAddNode: dependencies must be nodes of the graph, without duplicates.
TEST_F(GraphEdgesTest, DependenciesAreNodesOfTheGraphWithoutDuplicates) {
  CUgraph graph = Graph();
  CUgraph other = Graph();
  CUgraphNode node = Append(graph, 1);
  CUgraphNode foreign = Append(other, 2);
  CUgraphNode added = nullptr;
  const CUgraphNode twice[] = {node, node};
  EXPECT_EQ(cuGraphAddEmptyNode(&added, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddEmptyNode(&added, graph, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, cuGraphAddDependencies and cuGraphRemoveDependencies: adding an existing edge and removing a missing one
// are errors.
TEST_F(GraphEdgesTest, EdgesAreAddedOnceAndRemovedOnce) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode second = Append(graph, 2);
  ASSERT_EQ(cuGraphAddDependencies(graph, &first, &second, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddDependencies(graph, &first, &second, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphRemoveDependencies(graph, &first, &second, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphRemoveDependencies(graph, &first, &second, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, cuGraphGetNodes: entries that do not fit are left out, and entries left over are set to null.
TEST_F(GraphEdgesTest, ListsAreCutAndFilled) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode second = Append(graph, 2, {first});
  size_t count = 0;
  ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2U);
  CUgraphNode nodes[3] = {first, first, first};
  count = 3;
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(nodes[2], nullptr);
  count = 3;
  ASSERT_EQ(cuGraphGetRootNodes(graph, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(nodes[0], first);
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  count = 1;
  ASSERT_EQ(cuGraphGetEdges(graph, &from, &to, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(from, first);
  EXPECT_EQ(to, second);
  count = 1;
  ASSERT_EQ(cuGraphNodeGetDependentNodes(first, nodes, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(nodes[0], second);
}

// Driver API, CUgraphDependencyType and cuGraphGetEdges: programmatic edges connect kernels, have a port, and cannot be
// queried without their data.
TEST_F(GraphEdgesTest, ProgrammaticEdgesAreBetweenKernels) {
  CUgraph graph = Graph();
  CUgraphNode first = Append(graph, 1);
  CUgraphNode second = Append(graph, 2);
  CUgraphNode empty = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&empty, graph, nullptr, 0), CUDA_SUCCESS);
  CUgraphEdgeData data = {};
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  EXPECT_EQ(cuGraphAddDependencies(graph, &first, &second, &data, 1), CUDA_ERROR_INVALID_VALUE);
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  EXPECT_EQ(cuGraphAddDependencies(graph, &first, &empty, &data, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphAddDependencies(graph, &first, &second, &data, 1), CUDA_SUCCESS);
  CUgraphNode found = nullptr;
  size_t count = 1;
  EXPECT_EQ(cuGraphNodeGetDependencies(second, &found, nullptr, &count), CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData read = {};
  ASSERT_EQ(cuGraphNodeGetDependencies(second, &found, &read, &count), CUDA_SUCCESS);
  EXPECT_EQ(int{read.from_port}, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
}

}  // namespace
}  // namespace callout::software_gpu
