// SPDX-License-Identifier: Apache-2.0
#include "driver/enqueue.h"

namespace callout::software_gpu {
namespace {

CUgraphExecUpdateResult CompareForUpdate(const Nodes& before, const Nodes& after) {
  if (before.size() != after.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].after != after[i].after) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (before[i].kind != after[i].kind) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace

extern "C" CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  const Call call("cuGraphInstantiateWithFlags", kContext);
  if (call.refused()) return call.result();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().graphs.contains(graph)) return CUDA_ERROR_INVALID_HANDLE;
  *executable = new CUgraphExec_st{std::make_shared<const Nodes>(graph->nodes)};
  call.state().graph_execs.insert(*executable);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  const Call call("cuGraphLaunch", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.graph_execs.contains(executable)) return CUDA_ERROR_INVALID_HANDLE;
  const auto run = [nodes = executable->nodes]() -> CUresult {
    for (const Node& node : *nodes) {
      if (const CUresult result = node.run(); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  };
  return Enqueue(state, call.context(), stream, {NodeKind::kGraph, nullptr, run});
}

extern "C" CUresult cuGraphDestroy(CUgraph graph) {
  const Call call("cuGraphDestroy", kInitialized);
  if (call.refused()) return call.result();
  if (call.state().graphs.erase(graph) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete graph;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const Call call("cuGraphExecDestroy", kInitialized);
  if (call.refused()) return call.result();
  if (call.state().graph_execs.erase(executable) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete executable;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  const Call call("cuGraphExecUpdate", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.graph_execs.contains(executable) || !state.graphs.contains(graph)) return CUDA_ERROR_INVALID_HANDLE;
  *result = {
      .result = CompareForUpdate(*executable->nodes, graph->nodes), .errorNode = nullptr, .errorFromNode = nullptr};
  if (result->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  executable->nodes = std::make_shared<const Nodes>(graph->nodes);
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
