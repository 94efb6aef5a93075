// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs. With the mutex of State held.
#pragma once

#include <memory>

#include "driver/graph.h"
#include "driver/objects.h"
#include "driver/state.h"

struct CUgraphExec_st {
  unsigned int id = 0;
  unsigned long long flags = 0;
  std::unique_ptr<CUgraph_st> graph = {};
  callout::software_gpu::Copies nodes = {};  ///< Of `graph`, by the id of those that they were made from.
  std::shared_ptr<const void> instance = {};
  /// What launches share until the next update. Null after one.
  std::shared_ptr<const CUgraph_st> launched = {};
  callout::software_gpu::Mark last = {};  ///< The end of the latest launch.
};

namespace callout::software_gpu {

/// The node of the executable graph that stands for a node of the graph that it was made from. Null if there is none.
CUgraphNode FindInExec(const State& state, CUgraphExec exec, CUgraphNode node);

/// Gives a node of an executable graph other parameters, or says why it cannot have them.
CUgraphExecUpdateResult CompareWork(const CUgraphNode_st& node, const Work& work, unsigned long long flags);

/// Compares a graph with one of the same topology, node by node in the order of their making, and all below them.
CUgraphExecUpdateResultInfo CompareGraphs(const CUgraph_st& before, const CUgraph_st& after, unsigned long long flags);

/// Makes the graph what later launches run. `graph` was compared with what the executable graph has.
void ReplaceGraph(CUgraphExec exec, const CUgraph_st& graph);

/// What a launch runs. It does not change when the executable graph does.
std::shared_ptr<const CUgraph_st> TakeLaunch(CUgraphExec exec);

/// CUDA_ERROR_INVALID_HANDLE if a node has an event or a kernel that is no more.
CUresult CheckAlive(State& state, const CUgraph_st& graph, CUgraphNode* dead);

}  // namespace callout::software_gpu
