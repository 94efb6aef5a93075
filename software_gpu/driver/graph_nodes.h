// SPDX-License-Identifier: Apache-2.0
//
// How nodes get into graphs, by calls and by captures, and out of them. With the mutex of State held.
#pragma once

#include "driver/graph.h"
#include "driver/graph_works.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// What a node is to be.
struct NewNode {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  WorkPtr work = {};
  std::vector<std::unique_ptr<CUgraph_st>> bodies = {};
  /// A recorded launch that need not wait for the end of the kernels before it.
  bool programmatic = false;
};

/// Checks the dependencies, and what a conditional body may hold.
CUresult AddNode(State& state, CUgraph graph, const Edges& after, NewNode node, CUgraphNode* added);

/// CUDA_ERROR_INVALID_VALUE if a node is not of the graph or comes twice. `data` may be null.
CUresult ReadEdges(State& state, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                   Edges* edges);

/// The body of a child graph node: a copy of `child`, or itself.
CUresult MakeChild(State& state, CUgraph parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                   NewNode* node);

/// The node and its bodies.
CUresult MakeConditional(State& state, CUgraph parent, CUDA_CONDITIONAL_NODE_PARAMS* params, NewNode* node);

CUgraph NewGraph(State& state);
/// The graph of a caller that the graph is below, or itself.
CUgraph RootOf(CUgraph graph);
/// Makes handles of a graph, of its nodes, and of all below it; and the reverse.
void Register(State& state, CUgraph graph);
void Unregister(State& state, CUgraph graph);
/// Unregisters and deletes.
void DeleteGraph(State& state, CUgraph graph);

}  // namespace callout::software_gpu
