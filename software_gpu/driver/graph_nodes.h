// SPDX-License-Identifier: Apache-2.0
//
// Adds nodes to graphs, by calls and by captures, and removes them. All functions require the mutex of State.
#pragma once

#include "driver/graph.h"
#include "driver/graph_works.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// A node that is to be added.
struct NewNode {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  WorkPtr work = {};
  std::vector<std::unique_ptr<CUgraph_st>> bodies = {};
  /// True for a recorded launch that need not wait for the end of the kernels before it.
  bool programmatic = false;
};

/// Adds a node. Checks the dependencies, and that a conditional body may hold the node.
CUresult AddNode(State& state, CUgraph graph, const Edges& after, NewNode node, CUgraphNode* added);

/// Reads edges from the caller's arrays. Returns CUDA_ERROR_INVALID_VALUE if a node is not of the graph or occurs
/// twice. `data` may be null.
CUresult ReadEdges(State& state, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                   Edges* edges);

/// Makes the body of a child graph node: a copy of `child`, or `child` itself.
CUresult MakeChild(State& state, CUgraph parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                   NewNode* node);

/// Makes a conditional node and its bodies.
CUresult MakeConditional(State& state, CUgraph parent, CUDA_CONDITIONAL_NODE_PARAMS* params, NewNode* node);

CUgraph NewGraph(State& state);
/// Returns the caller's graph above `graph`, or `graph` itself.
CUgraph RootOf(CUgraph graph);
/// Register and Unregister add and remove the handles of a graph, its nodes, and everything below it.
void Register(State& state, CUgraph graph);
void Unregister(State& state, CUgraph graph);
/// Unregisters the graph and deletes it.
void DeleteGraph(State& state, CUgraph graph);

}  // namespace callout::software_gpu
