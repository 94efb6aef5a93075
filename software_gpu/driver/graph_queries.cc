// SPDX-License-Identifier: Apache-2.0
//
// The functions that list the contents of a graph, and that change its edges.
#include <algorithm>
#include <utility>

#include "driver/graph_nodes.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

// Driver API, cuGraphGetNodes: without an array, returns the number; otherwise as many nodes as fit, and null in the
// rest.
void GiveNodes(const std::vector<CUgraphNode>& found, CUgraphNode* out, size_t* count) {
  if (out == nullptr) {
    *count = found.size();
    return;
  }
  for (size_t i = 0; i < *count; ++i) out[i] = i < found.size() ? found[i] : nullptr;
  *count = std::min(*count, found.size());
}

CUresult GiveEdges(const Edges& found, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  if (data != nullptr && out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool lossy = out != nullptr && data == nullptr &&
                     !std::all_of(found.begin(), found.end(), [](const Edge& edge) { return IsZero(edge.data); });
  if (lossy) return CUDA_ERROR_LOSSY_QUERY;
  std::vector<CUgraphNode> nodes;
  for (const Edge& edge : found) nodes.push_back(edge.from);
  for (size_t i = 0; data != nullptr && i < std::min(*count, found.size()); ++i) data[i] = found[i].data;
  GiveNodes(nodes, out, count);
  return CUDA_SUCCESS;
}

CUresult GiveGraphEdges(const CUgraph_st& graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                        size_t* count) {
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  Edges all;
  std::vector<CUgraphNode> ends;
  for (const auto& node : graph.nodes) {
    for (const Edge& edge : node->after) {
      all.push_back(edge);
      ends.push_back(node.get());
    }
  }
  size_t given = *count;
  if (const CUresult wrong = GiveEdges(all, from, data, &given); wrong != CUDA_SUCCESS) return wrong;
  GiveNodes(ends, to, count);
  return CUDA_SUCCESS;
}

using Change = CUresult (*)(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data);

CUresult AddEdge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data) {
  if (from == to || !IsEdge(from->type, to->type, data)) return CUDA_ERROR_INVALID_VALUE;
  const auto same = [&](const Edge& edge) { return edge.from == from; };
  if (std::any_of(to->after.begin(), to->after.end(), same)) return CUDA_ERROR_INVALID_VALUE;
  to->after.push_back({from, data});
  return CUDA_SUCCESS;
}

CUresult RemoveEdge(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data) {
  const auto removed = std::erase_if(to->after, [&](const Edge& edge) {
    return edge.from == from && edge.data.from_port == data.from_port && edge.data.to_port == data.to_port &&
           edge.data.type == data.type;
  });
  return removed == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ChangeEdges(const char* function, CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                     const CUgraphEdgeData* data, size_t count, Change change) {
  const Call call(function, kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    for (CUgraphNode node : {from[i], to[i]}) {
      if (!state.graph_nodes.contains(node) || node->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = change(from[i], to[i], data != nullptr ? data[i] : CUgraphEdgeData{});
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

template <typename Give>
CUresult AskGraph(const char* function, CUgraph graph, const size_t* count, Give give) {
  const Call call(function, kInitialized);
  if (call.refused()) return call.result();
  if (count == nullptr || !call.state().graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  return give();
}

template <typename Give>
CUresult AskNode(const char* function, CUgraphNode node, const void* out, Give give) {
  const Call call(function, kInitialized);
  if (call.refused()) return call.result();
  if (out == nullptr || !call.state().graph_nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
  return give();
}

}  // namespace

extern "C" CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return AskGraph("cuGraphGetNodes", graph, count, [&] {
    std::vector<CUgraphNode> all;
    for (const auto& node : graph->nodes) all.push_back(node.get());
    GiveNodes(all, nodes, count);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return AskGraph("cuGraphGetRootNodes", graph, count, [&] {
    std::vector<CUgraphNode> roots;
    for (const auto& node : graph->nodes) {
      if (node->after.empty()) roots.push_back(node.get());
    }
    GiveNodes(roots, nodes, count);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}

extern "C" CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                       size_t* count) {
  return AskGraph("cuGraphGetEdges", graph, count, [&] { return GiveGraphEdges(*graph, from, to, data, count); });
}

extern "C" CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, dependencies, nullptr, count);
}

extern "C" CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* data,
                                                  size_t* count) {
  return AskNode("cuGraphNodeGetDependencies", node, count,
                 [&] { return GiveEdges(node->after, dependencies, data, count); });
}

extern "C" CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* dependents, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, dependents, nullptr, count);
}

extern "C" CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents, CUgraphEdgeData* data,
                                                    size_t* count) {
  return AskNode("cuGraphNodeGetDependentNodes", node, count,
                 [&] { return GiveEdges(DependentsOf(*node), dependents, data, count); });
}

extern "C" CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return AskNode("cuGraphNodeGetType", node, type, [&] {
    *type = node->type;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph* graph) {
  return AskNode("cuGraphNodeGetContainingGraph", node, graph, [&] {
    *graph = node->graph;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned int* id) {
  return AskNode("cuGraphNodeGetLocalId", node, id, [&] {
    *id = node->local_id;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long* id) {
  return AskNode("cuGraphNodeGetToolsId", node, id, [&] {
    *id = node->id;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphGetId(CUgraph graph, unsigned int* id) {
  const Call call("cuGraphGetId", kInitialized);
  if (call.refused()) return call.result();
  if (id == nullptr || !call.state().graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  *id = graph->id;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  const Call call("cuGraphNodeFindInClone", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (node == nullptr || !state.graph_nodes.contains(original) || !state.graphs.contains(clone)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUgraphNode found = nullptr;
  VisitNodes(*clone, [&](CUgraphNode_st& copy) {
    if (copy.origin == original->id) found = &copy;
  });
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *node = found;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return AskNode("cuGraphChildGraphNodeGetGraph", node, graph, [&] {
    if (node->type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    *graph = node->body_handles.front();
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           size_t count) {
  return ChangeEdges("cuGraphAddDependencies", graph, from, to, nullptr, count, &AddEdge);
}

extern "C" CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                              const CUgraphEdgeData* data, size_t count) {
  return ChangeEdges("cuGraphAddDependencies", graph, from, to, data, count, &AddEdge);
}

extern "C" CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                              size_t count) {
  return ChangeEdges("cuGraphRemoveDependencies", graph, from, to, nullptr, count, &RemoveEdge);
}

extern "C" CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                                 const CUgraphEdgeData* data, size_t count) {
  return ChangeEdges("cuGraphRemoveDependencies", graph, from, to, data, count, &RemoveEdge);
}

extern "C" CUresult cuGraphDestroyNode(CUgraphNode node) {
  const Call call("cuGraphDestroyNode", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.graph_nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
  CUgraph graph = node->graph;
  // Driver API, cuStreamGetCaptureInfo: no node is removed from a graph that is recorded.
  if (graph->captures != 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& other : graph->nodes) {
    std::erase_if(other->after, [&](const Edge& edge) { return edge.from == node; });
  }
  state.graph_nodes.erase(node);
  for (const auto& body : node->bodies) Unregister(state, body.get());
  std::erase_if(graph->nodes, [&](const auto& own) { return own.get() == node; });
  for (size_t i = 0; i < graph->nodes.size(); ++i) graph->nodes[i]->position = i;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
