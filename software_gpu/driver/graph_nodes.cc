// SPDX-License-Identifier: Apache-2.0
#include "driver/graph_nodes.h"

#include <algorithm>
#include <utility>

namespace callout::software_gpu {
namespace {

// True for pageable host memory. Mapped device memory has no context either, so the type is checked as well.
bool IsPageable(const Operand& operand) { return operand.type == CU_MEMORYTYPE_HOST && operand.context == nullptr; }

// Checks a node in the body of a conditional node, at any level (Driver API, CUDA_CONDITIONAL_NODE_PARAMS). Copies
// there may use device memory and pinned memory only (Programming Guide, Conditional Graph Nodes).
CUresult CheckInBody(CUcontext context, CUgraphNodeType type, const Work* work) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return std::get<KernelWork>(*work).context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const auto& copy = std::get<CopyWork>(*work);
      return IsPageable(copy.from) || IsPageable(copy.to) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return std::get<ConditionalWork>(*work).context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult CheckBodies(CUcontext context, const NewNode& node) {
  CUresult wrong = CheckInBody(context, node.type, node.work.get());
  for (const auto& body : node.bodies) {
    VisitNodes(*body, [&](const CUgraphNode_st& below) {
      if (wrong == CUDA_SUCCESS) wrong = CheckInBody(context, below.type, below.work.get());
    });
  }
  return wrong;
}

CUresult CheckNode(const CUgraph_st& graph, const Edges& after, const NewNode& node) {
  for (const Edge& edge : after) {
    if (!IsEdge(edge.from->type, node.type, edge.data)) return CUDA_ERROR_INVALID_VALUE;
  }
  return graph.conditional != nullptr ? CheckBodies(graph.conditional, node) : CUDA_SUCCESS;
}

// Returns a graph that was to be moved to its caller.
void ReturnMoved(NewNode& node) {
  for (auto& body : node.bodies) {
    if (!body->moved) continue;
    body->moved = false;
    (void)body.release();
  }
}

void MarkConditional(CUgraph_st& graph, CUcontext context) {
  graph.conditional = context;
  for (const auto& node : graph.nodes) {
    for (const auto& body : node->bodies) MarkConditional(*body, context);
  }
}

bool IsBelow(CUgraph graph, CUgraph above) {
  for (; graph != nullptr; graph = graph->owner != nullptr ? graph->owner->graph : nullptr) {
    if (graph == above) return true;
  }
  return false;
}

// Finds a handle's condition. A handle belongs to a graph and to the graphs below it.
std::shared_ptr<Condition> FindCondition(CUgraph graph, CUgraphConditionalHandle handle) {
  for (; graph != nullptr; graph = graph->owner != nullptr ? graph->owner->graph : nullptr) {
    if (const auto found = graph->conditions.find(handle); found != graph->conditions.end()) return found->second;
  }
  return nullptr;
}

bool IsUsed(CUgraph graph, CUgraphConditionalHandle handle) {
  bool used = false;
  VisitNodes(*RootOf(graph), [&](const CUgraphNode_st& node) {
    used =
        used || (node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && node.As<ConditionalWork>().condition->handle == handle);
  });
  return used;
}

bool IsSize(CUgraphConditionalNodeType type, unsigned int size) {
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return size > 0;
    default:
      return false;
  }
}

}  // namespace

CUgraph NewGraph(State& state) {
  auto* const graph = new CUgraph_st{.id = static_cast<unsigned int>(NextGraphId())};
  state.graphs.insert(graph);
  return graph;
}

CUgraph RootOf(CUgraph graph) {
  while (graph->owner != nullptr) graph = graph->owner->graph;
  return graph;
}

void Register(State& state, CUgraph graph) {
  state.graphs.insert(graph);
  for (const auto& node : graph->nodes) {
    state.graph_nodes.insert(node.get());
    for (const auto& body : node->bodies) Register(state, body.get());
  }
}

void Unregister(State& state, CUgraph graph) {
  state.graphs.erase(graph);
  for (const auto& node : graph->nodes) {
    state.graph_nodes.erase(node.get());
    for (const auto& body : node->bodies) Unregister(state, body.get());
  }
}

void DeleteGraph(State& state, CUgraph graph) {
  Unregister(state, graph);
  delete graph;
}

CUresult ReadEdges(State& state, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                   Edges* edges) {
  if (count != 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (!state.graph_nodes.contains(nodes[i]) || nodes[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    const auto same = [&](const Edge& edge) { return edge.from == nodes[i]; };
    if (std::any_of(edges->begin(), edges->end(), same)) return CUDA_ERROR_INVALID_VALUE;
    edges->push_back({nodes[i], data != nullptr ? data[i] : CUgraphEdgeData{}});
  }
  return CUDA_SUCCESS;
}

CUresult AddNode(State& state, CUgraph graph, const Edges& after, NewNode node, CUgraphNode* added) {
  if (const CUresult wrong = CheckNode(*graph, after, node); wrong != CUDA_SUCCESS) {
    ReturnMoved(node);
    return wrong;
  }
  auto made = std::make_unique<CUgraphNode_st>();
  made->graph = graph;
  made->type = node.type;
  made->local_id = graph->nodes_made++;
  made->id = NextGraphId();
  made->position = graph->nodes.size();
  made->work = std::move(node.work);
  made->after = after;
  made->bodies = std::move(node.bodies);
  for (const auto& body : made->bodies) {
    body->owner = made.get();
    made->body_handles.push_back(body.get());
    if (graph->conditional != nullptr) MarkConditional(*body, graph->conditional);
    Register(state, body.get());
  }
  state.graph_nodes.insert(made.get());
  if (added != nullptr) *added = made.get();
  graph->nodes.push_back(std::move(made));
  return CUDA_SUCCESS;
}

CUresult MakeChild(State& state, CUgraph parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                   NewNode* node) {
  if (!state.graphs.contains(child) || child->captures != 0) return CUDA_ERROR_INVALID_VALUE;
  if (HasNode(*child, CU_GRAPH_NODE_TYPE_CONDITIONAL)) return CUDA_ERROR_NOT_SUPPORTED;
  node->type = CU_GRAPH_NODE_TYPE_GRAPH;
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) {
    node->bodies.push_back(CopyGraph(*child, nullptr));
    node->bodies.front()->moved = false;
    return CUDA_SUCCESS;
  }
  if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) return CUDA_ERROR_INVALID_VALUE;
  if (child->owner != nullptr || IsBelow(parent, child)) return CUDA_ERROR_INVALID_VALUE;
  child->moved = true;
  node->bodies.emplace_back(child);
  return CUDA_SUCCESS;
}

CUresult MakeConditional(State& state, CUgraph parent, CUDA_CONDITIONAL_NODE_PARAMS* params, NewNode* node) {
  const std::shared_ptr<Condition> condition = FindCondition(parent, params->handle);
  if (condition == nullptr || IsUsed(parent, params->handle)) return CUDA_ERROR_INVALID_VALUE;
  if (!IsSize(params->type, params->size)) return CUDA_ERROR_INVALID_VALUE;
  if (params->ctx != nullptr && params->ctx != condition->context) return CUDA_ERROR_INVALID_VALUE;
  (void)state;
  node->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  node->work = std::make_shared<const Work>(ConditionalWork{params->type, condition, condition->context});
  for (unsigned int i = 0; i < params->size; ++i) {
    node->bodies.push_back(std::make_unique<CUgraph_st>());
    node->bodies.back()->id = static_cast<unsigned int>(NextGraphId());
    node->bodies.back()->conditional = condition->context;
  }
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
