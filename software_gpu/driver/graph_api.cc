// SPDX-License-Identifier: Apache-2.0
//
// The functions that make graphs and their nodes.
#include <cstring>
#include <utility>

#include "driver/graph_nodes.h"
#include "driver/graph_works.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

struct Place {
  CUgraphNode* out;
  CUgraph graph;
  const CUgraphNode* dependencies;
  const CUgraphEdgeData* data;
  size_t count;
};

CUresult CheckPlace(State& state, const Place& place, Edges* edges) {
  if (place.out == nullptr || !state.graphs.contains(place.graph)) return CUDA_ERROR_INVALID_VALUE;
  return ReadEdges(state, place.graph, place.dependencies, place.data, place.count, edges);
}

// Adds a node once its place is checked. `make` makes the node's work.
template <typename Make>
CUresult AddAt(const char* function, unsigned needs, const Place& place, CUgraphNodeType type, Make make) {
  const Call call(function, needs);
  if (call.refused()) return call.result();
  Edges edges;
  if (const CUresult wrong = CheckPlace(call.state(), place, &edges); wrong != CUDA_SUCCESS) return wrong;
  NewNode node{.type = type};
  if (const CUresult wrong = make(call, &node); wrong != CUDA_SUCCESS) return wrong;
  return AddNode(call.state(), place.graph, edges, std::move(node), place.out);
}

CUDA_KERNEL_NODE_PARAMS_v2 Widen(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = {};
  std::memcpy(&wide, &params, sizeof(params));
  return wide;
}

bool AllZero(const CUgraphNodeParams& params) {
  return params.reserved0[0] == 0 && params.reserved0[1] == 0 && params.reserved0[2] == 0 && params.reserved2 == 0;
}

CUresult MakeAny(const Call& call, CUgraph graph, CUgraphNodeParams* params, NewNode* node) {
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return MakeChild(call.state(), graph, params->graph.graph, params->graph.ownership, node);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return MakeConditional(call.state(), graph, &params->conditional, node);
    default:
      return MakeWork(call.state(), call.context(), *params, &node->work);
  }
}

CUresult AddAny(const char* function, const Place& place, CUgraphNodeParams* params) {
  const Call call(function, kContext, params != nullptr ? NameOf(params->type) : "");
  if (call.refused()) return call.result();
  if (params == nullptr || !AllZero(*params)) return CUDA_ERROR_INVALID_VALUE;
  Edges edges;
  if (const CUresult wrong = CheckPlace(call.state(), place, &edges); wrong != CUDA_SUCCESS) return wrong;
  NewNode node{.type = params->type};
  if (const CUresult wrong = MakeAny(call, place.graph, params, &node); wrong != CUDA_SUCCESS) return wrong;
  const CUresult result = AddNode(call.state(), place.graph, edges, std::move(node), place.out);
  if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    params->conditional.phGraph_out = (*place.out)->body_handles.data();
  }
  return result;
}

}  // namespace

extern "C" CUresult cuGraphCreate(CUgraph* graph, unsigned int flags) {
  const Call call("cuGraphCreate", kInitialized);
  if (call.refused()) return call.result();
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = NewGraph(call.state());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphDestroy(CUgraph graph) {
  const Call call("cuGraphDestroy", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  // Nodes destroy their bodies, and the end of a recording releases its graph.
  if (graph->owner != nullptr || graph->captures != 0) return CUDA_ERROR_INVALID_VALUE;
  DeleteGraph(call.state(), graph);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  const Call call("cuGraphClone", kInitialized);
  if (call.refused()) return call.result();
  if (clone == nullptr || !call.state().graphs.contains(original)) return CUDA_ERROR_INVALID_VALUE;
  // CUgraphNodeType: a graph that has a conditional node cannot be cloned.
  if (HasNode(*original, CU_GRAPH_NODE_TYPE_CONDITIONAL)) return CUDA_ERROR_NOT_SUPPORTED;
  auto copy = CopyGraph(*original, nullptr);
  copy->moved = false;
  *clone = copy.release();
  Register(call.state(), *clone);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                         size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  const CUDA_KERNEL_NODE_PARAMS_v2 wide = params != nullptr ? Widen(*params) : CUDA_KERNEL_NODE_PARAMS_v2{};
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count, params != nullptr ? &wide : nullptr);
}

extern "C" CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                            size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return AddAt("cuGraphAddKernelNode", kContext, {node, graph, dependencies, nullptr, count}, CU_GRAPH_NODE_TYPE_KERNEL,
               [&](const Call& call, NewNode* made) {
                 if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                 return MakeKernelWork(call.state(), call.context(), *params, {}, &made->work);
               });
}

extern "C" CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                         size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  return AddAt("cuGraphAddMemcpyNode", kInitialized, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_MEMCPY, [&](const Call& call, NewNode* made) {
                 if (params == nullptr || !IsContext(call.state(), context)) return CUDA_ERROR_INVALID_VALUE;
                 return MakeCopyWork(call.state(), context, *params, &made->work);
               });
}

extern "C" CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                         size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return AddAt("cuGraphAddMemsetNode", kInitialized, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_MEMSET, [&](const Call& call, NewNode* made) {
                 if (params == nullptr || !IsContext(call.state(), context)) return CUDA_ERROR_INVALID_VALUE;
                 return MakeSetWork(call.state(), context, *params, &made->work);
               });
}

extern "C" CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                       const CUDA_HOST_NODE_PARAMS* params) {
  return AddAt("cuGraphAddHostNode", kInitialized, {node, graph, dependencies, nullptr, count}, CU_GRAPH_NODE_TYPE_HOST,
               [&](const Call&, NewNode* made) {
                 return params == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeHostWork(*params, &made->work);
               });
}

extern "C" CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                        size_t count) {
  return AddAt("cuGraphAddEmptyNode", kInitialized, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_EMPTY, [](const Call&, NewNode*) { return CUDA_SUCCESS; });
}

extern "C" CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, CUgraph child) {
  return AddAt("cuGraphAddChildGraphNode", kInitialized, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_GRAPH, [&](const Call& call, NewNode* made) {
                 return MakeChild(call.state(), graph, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, made);
               });
}

extern "C" CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                              size_t count, CUevent event) {
  return AddAt("cuGraphAddEventRecordNode", kInitialized, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_EVENT_RECORD,
               [&](const Call& call, NewNode* made) { return MakeEventWork(call.state(), event, &made->work); });
}

extern "C" CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                            size_t count, CUevent event) {
  return AddAt("cuGraphAddEventWaitNode", kInitialized, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_WAIT_EVENT,
               [&](const Call& call, NewNode* made) { return MakeEventWork(call.state(), event, &made->work); });
}

extern "C" CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return AddAt("cuGraphAddBatchMemOpNode", kContext, {node, graph, dependencies, nullptr, count},
               CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [&](const Call& call, NewNode* made) {
                 if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                 return MakeBatchWork(call.state(), call.context(), *params, &made->work);
               });
}

extern "C" CUresult cuGraphAddMemAllocNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t,
                                           CUDA_MEM_ALLOC_NODE_PARAMS*) {
  const Call call("cuGraphAddMemAllocNode", kInitialized);
  return call.refused() ? call.result() : call.state().Refuse("a node of type memory allocation");
}

extern "C" CUresult cuGraphAddMemFreeNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUdeviceptr) {
  const Call call("cuGraphAddMemFreeNode", kInitialized);
  return call.refused() ? call.result() : call.state().Refuse("a node of type memory free");
}

extern "C" CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   CUgraphNodeParams* params) {
  return AddAny("cuGraphAddNode", {node, graph, dependencies, nullptr, count}, params);
}

extern "C" CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                      const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return AddAny("cuGraphAddNode", {node, graph, dependencies, data, count}, params);
}

extern "C" CUresult cuGraphAddNode_v3(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                      const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return AddAny("cuGraphAddNode", {node, graph, dependencies, data, count}, params);
}

extern "C" CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext context,
                                                   unsigned int initial, unsigned int flags) {
  const Call call("cuGraphConditionalHandleCreate", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (handle == nullptr || !state.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & ~static_cast<unsigned int>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUcontext const owner = context != nullptr ? context : call.context();
  if (!IsContext(state, owner)) return CUDA_ERROR_INVALID_CONTEXT;
  std::erase_if(state.conditions, [](const auto& entry) { return entry.second.expired(); });
  *handle = NextGraphId();
  const auto condition = std::make_shared<Condition>(*handle, owner, initial, flags != 0);
  graph->conditions[*handle] = condition;
  state.conditions[*handle] = condition;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
