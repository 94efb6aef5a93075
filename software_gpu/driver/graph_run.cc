// SPDX-License-Identifier: Apache-2.0
#include "driver/graph_run.h"

#include <algorithm>
#include <utility>

namespace callout::software_gpu {

GraphRun::GraphRun(std::shared_ptr<const CUgraph_st> graph, std::optional<uint64_t> seed) : graph_(std::move(graph)) {
  if (seed.has_value()) random_.emplace(*seed);
  TakeEvents(*graph_);
}

void GraphRun::TakeEvents(const CUgraph_st& graph) {
  VisitNodes(graph, [&](const CUgraphNode_st& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) marks_[node.id] = node.As<EventWork>().event->mark;
  });
  VisitNodes(graph, [&](const CUgraphNode_st& node) {
    if (node.type != CU_GRAPH_NODE_TYPE_EVENT_RECORD) return;
    Mark mark{.milestone = std::make_shared<Milestone>()};
    node.As<EventWork>().event->mark = mark;
    marks_[node.id] = std::move(mark);
  });
}

void GraphRun::Abandon() {
  VisitNodes(*graph_, [&](const CUgraphNode_st& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) marks_.at(node.id).milestone->Reach();
  });
}

CUresult GraphRun::Run() {
  // Each execution begins with the handles' default launch values (Driver API, cuGraphConditionalHandleCreate).
  VisitNodes(*graph_, [](const CUgraphNode_st& node) {
    if (node.type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return;
    Condition& condition = *node.As<ConditionalWork>().condition;
    if (condition.assigned_at_launch) condition.value = condition.initial;
  });
  const CUresult result = RunGraph(*graph_);
  if (result != CUDA_SUCCESS) Abandon();
  return result;
}

size_t GraphRun::TakeNext(const CUgraph_st& graph, std::vector<size_t>& ready) {
  const auto waits = [&](size_t node) { return graph.nodes[node]->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT; };
  auto chosen = ready.begin();
  if (random_.has_value()) {
    std::shuffle(ready.begin(), ready.end(), *random_);
    chosen = std::find_if_not(ready.begin(), ready.end(), waits);
  } else {
    chosen = std::min_element(ready.begin(), ready.end(), [&](size_t left, size_t right) {
      return std::pair(waits(left), left) < std::pair(waits(right), right);
    });
  }
  if (chosen == ready.end()) chosen = ready.begin();
  const size_t node = *chosen;
  ready.erase(chosen);
  return node;
}

CUresult GraphRun::RunGraph(const CUgraph_st& graph) {
  std::vector<size_t> open(graph.nodes.size());
  std::vector<std::vector<size_t>> next(graph.nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    open[i] = graph.nodes[i]->after.size();
    for (const Edge& edge : graph.nodes[i]->after) next[edge.from->position].push_back(i);
    if (open[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const size_t node = TakeNext(graph, ready);
    if (const CUresult result = RunNode(*graph.nodes[node]); result != CUDA_SUCCESS) return result;
    for (const size_t after : next[node]) {
      if (--open[after] == 0) ready.push_back(after);
    }
  }
  return CUDA_SUCCESS;
}

CUresult GraphRun::RunNode(const CUgraphNode_st& node) {
  if (!node.enabled) return CUDA_SUCCESS;
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return node.As<KernelWork>().run();
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return PerformCopy(node.As<CopyWork>().params);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return PerformSet(node.As<SetWork>().params);
    case CU_GRAPH_NODE_TYPE_HOST:
      return PerformHost(node.As<HostWork>().params);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return PerformBatch(node.As<BatchWork>());
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return RunGraph(*node.bodies.front());
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      marks_.at(node.id).Wait();
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      marks_.at(node.id).milestone->Reach();
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return RunConditional(node);
    default:
      return CUDA_SUCCESS;
  }
}

CUresult GraphRun::RunConditional(const CUgraphNode_st& node) {
  const auto& [type, condition, context] = node.As<ConditionalWork>();
  if (type == CU_GRAPH_COND_TYPE_WHILE) {
    while (condition->value != 0) {
      if (const CUresult result = RunGraph(*node.bodies.front()); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }
  const uint32_t value = condition->value;
  const size_t chosen = type == CU_GRAPH_COND_TYPE_SWITCH ? value : (value != 0 ? 0 : 1);
  return chosen < node.bodies.size() ? RunGraph(*node.bodies[chosen]) : CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
