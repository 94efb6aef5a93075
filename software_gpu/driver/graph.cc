// SPDX-License-Identifier: Apache-2.0
#include "driver/graph.h"

#include <algorithm>

namespace callout::software_gpu {
namespace {

void CopyInto(const CUgraph_st& from, CUgraph_st& to, Copies& copies) {
  to.conditional = from.conditional;
  to.moved = from.moved;
  to.conditions = from.conditions;
  to.nodes_made = from.nodes_made;
  to.objects = from.objects;
  for (const auto& node : from.nodes) {
    auto copy = std::make_unique<CUgraphNode_st>();
    copy->graph = &to;
    copy->local_id = node->local_id;
    copy->id = NextGraphId();
    copy->origin = node->id;
    copy->position = to.nodes.size();
    copy->type = node->type;
    copy->work = node->work;
    copy->enabled = node->enabled;
    for (const auto& body : node->bodies) {
      copy->bodies.push_back(CopyGraph(*body, &copies));
      copy->bodies.back()->owner = copy.get();
      copy->body_handles.push_back(copy->bodies.back().get());
    }
    copies[node->id] = copy.get();
    to.nodes.push_back(std::move(copy));
  }
  for (const auto& node : from.nodes) {
    CUgraphNode copy = copies.at(node->id);
    for (const Edge& edge : node->after) copy->after.push_back({copies.at(edge.from->id), edge.data});
  }
}

}  // namespace

uint64_t NextGraphId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::unique_ptr<CUgraph_st> CopyGraph(const CUgraph_st& graph, Copies* copies) {
  auto copy = std::make_unique<CUgraph_st>();
  copy->id = static_cast<unsigned int>(NextGraphId());
  Copies own;
  CopyInto(graph, *copy, copies != nullptr ? *copies : own);
  return copy;
}

void VisitNodes(const CUgraph_st& graph, const std::function<void(CUgraphNode_st&)>& use) {
  for (const auto& node : graph.nodes) {
    use(*node);
    for (const auto& body : node->bodies) VisitNodes(*body, use);
  }
}

bool HasNode(const CUgraph_st& graph, CUgraphNodeType type) {
  bool found = false;
  VisitNodes(graph, [&](const CUgraphNode_st& node) { found = found || node.type == type; });
  return found;
}

CUgraphNode FindCycle(const CUgraph_st& graph) {
  std::map<CUgraphNode, size_t> open;
  std::map<CUgraphNode, std::vector<CUgraphNode>> next;
  std::vector<CUgraphNode> ready;
  for (const auto& node : graph.nodes) {
    open[node.get()] = node->after.size();
    for (const Edge& edge : node->after) next[edge.from].push_back(node.get());
    if (node->after.empty()) ready.push_back(node.get());
  }
  while (!ready.empty()) {
    CUgraphNode node = ready.back();
    ready.pop_back();
    open.erase(node);
    for (CUgraphNode after : next[node]) {
      if (--open[after] == 0) ready.push_back(after);
    }
  }
  // Each node left lies on a cycle or behind one, so a walk back from any of them ends in a cycle.
  if (open.empty()) return nullptr;
  CUgraphNode node = open.begin()->first;
  for (size_t steps = 0; steps < graph.nodes.size(); ++steps) {
    const auto back = std::find_if(node->after.begin(), node->after.end(),
                                   [&](const Edge& edge) { return open.contains(edge.from); });
    node = back->from;
  }
  return node;
}

bool IsZero(const CUgraphEdgeData& data) { return data.from_port == 0 && data.to_port == 0 && data.type == 0; }

bool IsEdge(CUgraphNodeType from, CUgraphNodeType to, const CUgraphEdgeData& data) {
  const bool reserved_is_zero =
      std::all_of(std::begin(data.reserved), std::end(data.reserved), [](unsigned char byte) { return byte == 0; });
  if (!reserved_is_zero || data.to_port != 0) return false;
  const bool after_kernel = from == CU_GRAPH_NODE_TYPE_KERNEL;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) {
    const bool port = data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                      data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
    return port && after_kernel && to == CU_GRAPH_NODE_TYPE_KERNEL;
  }
  if (data.type != CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) return false;
  return data.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT ||
         (after_kernel && data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
}

Edges DependentsOf(const CUgraphNode_st& node) {
  Edges dependents;
  for (const auto& other : node.graph->nodes) {
    for (const Edge& edge : other->after) {
      if (edge.from == &node) dependents.push_back({other.get(), edge.data});
    }
  }
  return dependents;
}

std::map<uint64_t, CUgraphNode> Behind(const Edges& nodes) {
  std::map<uint64_t, CUgraphNode> behind;
  Edges open = nodes;
  while (!open.empty()) {
    CUgraphNode node = open.back().from;
    open.pop_back();
    if (behind.emplace(node->id, node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return behind;
}

}  // namespace callout::software_gpu
