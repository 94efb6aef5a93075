// SPDX-License-Identifier: Apache-2.0
//
// One launch of an executable graph, which runs in the thread of its stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "driver/graph.h"
#include "driver/objects.h"

namespace callout::software_gpu {

/// Runs each node after the nodes on which it depends, one at a time: in the order of their making or, with a seed, in
/// a random order, so that a missing edge shows. A wait for an event runs only when no other node can run, so that the
/// work for which it waits is not behind it.
class GraphRun {
 public:
  /// Requires the mutex of State. Waits of the graph wait for the latest records of their events so far, and the
  /// graph's own records are made now.
  GraphRun(std::shared_ptr<const CUgraph_st> graph, std::optional<uint64_t> seed);

  /// Runs the graph, without the mutex. **Blocks until** all nodes ran, or one failed, whose error it returns.
  CUresult Run();
  /// Replaces Run() in a context that failed before.
  void Abandon();

 private:
  void TakeEvents(const CUgraph_st& graph);
  CUresult RunGraph(const CUgraph_st& graph);
  CUresult RunNode(const CUgraphNode_st& node);
  CUresult RunConditional(const CUgraphNode_st& node);
  size_t TakeNext(const CUgraph_st& graph, std::vector<size_t>& ready);

  std::shared_ptr<const CUgraph_st> graph_;
  std::optional<std::mt19937_64> random_;
  std::map<uint64_t, Mark> marks_;  // of the event nodes, by their id
};

/// Perform the work of one node, without the mutex.
CUresult PerformCopy(const CUDA_MEMCPY3D& copy);
CUresult PerformSet(const CUDA_MEMSET_NODE_PARAMS& set);
CUresult PerformHost(const CUDA_HOST_NODE_PARAMS& host);
CUresult PerformBatch(const BatchWork& batch);

}  // namespace callout::software_gpu
