// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs. All functions require the mutex of State.
#pragma once

#include <memory>

#include "driver/graph.h"
#include "driver/objects.h"
#include "driver/state.h"

struct CUgraphExec_st {
  unsigned int id = 0;
  unsigned long long flags = 0;
  std::unique_ptr<CUgraph_st> graph = {};
  callout::software_gpu::Copies nodes = {};  ///< Nodes of `graph`, by the ids of their originals.
  std::shared_ptr<const void> instance = {};
  /// The graph that launches share until the next update. Null after an update.
  std::shared_ptr<const CUgraph_st> launched = {};
  callout::software_gpu::Mark last = {};  ///< The end of the latest launch.
};

namespace callout::software_gpu {

/// Returns the executable graph's node for a node of the original graph. Null if there is none.
CUgraphNode FindInExec(const State& state, CUgraphExec exec, CUgraphNode node);

/// Compares new parameters with a node of an executable graph. Returns why the node cannot have them.
CUgraphExecUpdateResult CompareWork(const CUgraphNode_st& node, const Work& work, unsigned long long flags);

/// Compares two graphs of one topology, and all graphs below them, node by node in the order of their making.
CUgraphExecUpdateResultInfo CompareGraphs(const CUgraph_st& before, const CUgraph_st& after, unsigned long long flags);

/// Makes later launches run `graph`, which was compared with the executable graph before.
void ReplaceGraph(CUgraphExec exec, const CUgraph_st& graph);

/// Returns the graph that a launch runs. Later changes of the executable graph do not affect it.
std::shared_ptr<const CUgraph_st> TakeLaunch(CUgraphExec exec);

/// Returns CUDA_ERROR_INVALID_HANDLE if a node has an event or a kernel that was destroyed.
CUresult CheckAlive(State& state, const CUgraph_st& graph, CUgraphNode* dead);

}  // namespace callout::software_gpu
