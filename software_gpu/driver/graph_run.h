// SPDX-License-Identifier: Apache-2.0
//
// What one launch of an executable graph does, in the thread of its stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "driver/graph.h"
#include "driver/objects.h"

namespace callout::software_gpu {

/// Runs each node after those that it depends on, one at a time: in the order of their making or, with a seed, in a
/// random one, so that an edge that is missing shows. A wait for an event comes after whatever else may run, so that
/// what it waits for is not behind it.
class GraphRun {
 public:
  /// With the mutex of State held: events that are waited for are those recorded so far, and the graph's own records
  /// are made.
  GraphRun(std::shared_ptr<const CUgraph_st> graph, std::optional<uint64_t> seed);

  /// Without the mutex. **Blocks until** all nodes ran, or one failed, whose error it returns.
  CUresult Run();
  /// Instead of Run(), in a context that failed before.
  void Abandon();

 private:
  void TakeEvents(const CUgraph_st& graph);
  CUresult RunGraph(const CUgraph_st& graph);
  CUresult RunNode(const CUgraphNode_st& node);
  CUresult RunConditional(const CUgraphNode_st& node);
  size_t TakeNext(const CUgraph_st& graph, std::vector<size_t>& ready);

  std::shared_ptr<const CUgraph_st> graph_;
  std::optional<std::mt19937_64> random_;
  std::map<uint64_t, Mark> marks_;  // of the nodes of events, by their id
};

/// Without the mutex.
CUresult PerformCopy(const CUDA_MEMCPY3D& copy);
CUresult PerformSet(const CUDA_MEMSET_NODE_PARAMS& set);
CUresult PerformHost(const CUDA_HOST_NODE_PARAMS& host);
CUresult PerformBatch(const BatchWork& batch);

}  // namespace callout::software_gpu
