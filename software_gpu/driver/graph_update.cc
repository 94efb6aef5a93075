// SPDX-License-Identifier: Apache-2.0
//
// The functions that change what executable graphs run.
#include <cstring>
#include <utility>

#include "driver/graph_exec.h"
#include "driver/graph_works.h"

namespace callout::software_gpu {
namespace {

// Replaces the parameters of a node for later launches. `make` makes the new parameters.
template <typename Make>
CUresult SetInExec(const char* function, unsigned needs, CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type,
                   Make make) {
  const Call call(function, needs, NameOf(type));
  if (call.refused()) return call.result();
  CUgraphNode node = FindInExec(call.state(), exec, handle);
  if (node == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  WorkPtr work;
  if (const CUresult wrong = make(call, *node, &work); wrong != CUDA_SUCCESS) return wrong;
  if (CompareWork(*node, *work, exec->flags) != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
  exec->launched = nullptr;
  return CUDA_SUCCESS;
}

// Driver API, cuGraphExecMemcpyNodeSetParams: the old copy and the new one must have one row.
CUresult MakeRow(State& state, CUcontext context, const CUDA_MEMCPY3D& params, const CUgraphNode_st& node,
                 WorkPtr* work) {
  const CUDA_MEMCPY3D& before = node.As<CopyWork>().params;
  if (before.Height != 1 || before.Depth != 1 || params.Height != 1 || params.Depth != 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return MakeCopyWork(state, context, params, work);
}

// Replaces a child graph or a body by one of the same topology.
CUresult SetChild(State& state, CUgraphExec exec, CUgraphNode node, CUgraph child) {
  if (!state.graphs.contains(child) || child->captures != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto compared = CompareGraphs(*node->bodies.front(), *child, exec->flags);
  if (compared.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  // The nodes stay, because callers have their handles. Only their parameters are replaced.
  std::vector<CUgraphNode> now;
  VisitNodes(*child, [&](CUgraphNode_st& below) { now.push_back(&below); });
  size_t next = 0;
  VisitNodes(*node->bodies.front(), [&](CUgraphNode_st& below) { below.work = now[next++]->work; });
  exec->launched = nullptr;
  return CUDA_SUCCESS;
}

CUresult MakeForExec(const Call& call, const CUgraphNode_st& node, const CUgraphNodeParams& params, WorkPtr* work) {
  State& state = call.state();
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v2 kernel;
      std::memcpy(&kernel, &params.kernel, sizeof(kernel));
      return MakeKernelWork(state, call.context(), kernel, node.As<KernelWork>().attributes, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0 || params.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return MakeRow(state, node.As<CopyWork>().context, params.memcpy.copyParams, node, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return MakeWork(state, call.context(), params, work);
  }
}

CUresult SetAnyInExec(CUgraphExec exec, CUgraphNode handle, CUgraphNodeParams* params) {
  if (params->type != CU_GRAPH_NODE_TYPE_GRAPH) {
    return SetInExec("cuGraphExecNodeSetParams", kContext, exec, handle, params->type,
                     [&](const Call& call, const CUgraphNode_st& node, WorkPtr* work) {
                       return MakeForExec(call, node, *params, work);
                     });
  }
  return cuGraphExecChildGraphNodeSetParams(exec, handle, params->graph.graph);
}

CUresult SetEvent(const char* function, CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event) {
  return SetInExec(
      function, kInitialized, exec, node, type,
      [&](const Call& call, const CUgraphNode_st&, WorkPtr* work) { return MakeEventWork(call.state(), event, work); });
}

// True for nodes that can be disabled (Driver API, cuGraphNodeSetEnabled).
bool HasSwitch(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_MEMCPY;
}

}  // namespace

extern "C" CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = {};
  if (params != nullptr) std::memcpy(&wide, params, sizeof(*params));
  return cuGraphExecKernelNodeSetParams_v2(exec, node, params != nullptr ? &wide : nullptr);
}

extern "C" CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return SetInExec("cuGraphExecKernelNodeSetParams", kContext, exec, node, CU_GRAPH_NODE_TYPE_KERNEL,
                   [&](const Call& call, const CUgraphNode_st& before, WorkPtr* work) {
                     if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     return MakeKernelWork(call.state(), call.context(), *params, before.As<KernelWork>().attributes,
                                           work);
                   });
}

extern "C" CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                                   CUcontext context) {
  return SetInExec("cuGraphExecMemcpyNodeSetParams", kInitialized, exec, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                   [&](const Call& call, const CUgraphNode_st& before, WorkPtr* work) {
                     if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     return MakeRow(call.state(), context, *params, before, work);
                   });
}

extern "C" CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return SetInExec("cuGraphExecMemsetNodeSetParams", kInitialized, exec, node, CU_GRAPH_NODE_TYPE_MEMSET,
                   [&](const Call& call, const CUgraphNode_st&, WorkPtr* work) {
                     if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     return MakeSetWork(call.state(), context, *params, work);
                   });
}

extern "C" CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_HOST_NODE_PARAMS* params) {
  return SetInExec("cuGraphExecHostNodeSetParams", kInitialized, exec, node, CU_GRAPH_NODE_TYPE_HOST,
                   [&](const Call&, const CUgraphNode_st&, WorkPtr* work) {
                     return params == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeHostWork(*params, work);
                   });
}

extern "C" CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                       const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return SetInExec("cuGraphExecBatchMemOpNodeSetParams", kContext, exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                   [&](const Call& call, const CUgraphNode_st&, WorkPtr* work) {
                     if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     return MakeBatchWork(call.state(), call.context(), *params, work);
                   });
}

extern "C" CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return SetEvent("cuGraphExecEventRecordNodeSetEvent", exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

extern "C" CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return SetEvent("cuGraphExecEventWaitNodeSetEvent", exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

extern "C" CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode handle, CUgraph child) {
  const Call call("cuGraphExecChildGraphNodeSetParams", kInitialized);
  if (call.refused()) return call.result();
  CUgraphNode node = FindInExec(call.state(), exec, handle);
  if (node == nullptr || node->type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
  return SetChild(call.state(), exec, node, child);
}

extern "C" CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : SetAnyInExec(exec, node, params);
}

extern "C" CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode handle, unsigned int enabled) {
  const Call call("cuGraphNodeSetEnabled", kInitialized);
  if (call.refused()) return call.result();
  CUgraphNode node = FindInExec(call.state(), exec, handle);
  if (node == nullptr || !HasSwitch(node->type)) return CUDA_ERROR_INVALID_VALUE;
  node->enabled = enabled != 0;
  exec->launched = nullptr;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode handle, unsigned int* enabled) {
  const Call call("cuGraphNodeGetEnabled", kInitialized);
  if (call.refused()) return call.result();
  const CUgraphNode_st* node = FindInExec(call.state(), exec, handle);
  if (enabled == nullptr || node == nullptr || !HasSwitch(node->type)) return CUDA_ERROR_INVALID_VALUE;
  *enabled = node->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  const Call call("cuGraphExecUpdate", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  if (!state.graph_execs.contains(exec) || !state.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  // CUgraphChildGraphNodeOwnership: a graph that was moved is refused.
  if (graph->owner != nullptr || graph->captures != 0) return CUDA_ERROR_INVALID_VALUE;
  if (CheckAlive(state, *graph, &info->errorNode) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
  *info = CompareGraphs(*exec->graph, *graph, exec->flags);
  if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  ReplaceGraph(exec, *graph);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                                      CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info = {};
  const CUresult code = cuGraphExecUpdate_v2(exec, graph, &info);
  if (node != nullptr) *node = info.errorNode;
  if (result != nullptr) *result = info.result;
  return code;
}

}  // namespace callout::software_gpu
