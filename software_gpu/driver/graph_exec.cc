// SPDX-License-Identifier: Apache-2.0
//
// Makes, launches and destroys executable graphs.
#include "driver/graph_exec.h"

#include <utility>

#include "driver/captures.h"
#include "driver/enqueue.h"
#include "driver/graph_nodes.h"
#include "driver/graph_run.h"
#include "driver/launches.h"

namespace callout::software_gpu {
namespace {

constexpr unsigned long long kKnownFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

struct Refused {
  CUresult code = CUDA_SUCCESS;
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};

CUgraphNode FindCycleBelow(const CUgraph_st& graph) {
  if (CUgraphNode node = FindCycle(graph); node != nullptr) return node;
  for (const auto& node : graph.nodes) {
    for (const auto& body : node->bodies) {
      if (CUgraphNode found = FindCycleBelow(*body); found != nullptr) return found;
    }
  }
  return nullptr;
}

bool HasUnusedHandle(const CUgraph_st& graph) {
  std::map<CUgraphConditionalHandle, bool> used;
  for (const auto& [handle, condition] : graph.conditions) used[handle] = false;
  VisitNodes(graph, [&](const CUgraphNode_st& node) {
    for (const auto& body : node.bodies) {
      for (const auto& [handle, condition] : body->conditions) used.emplace(handle, false);
    }
  });
  VisitNodes(graph, [&](const CUgraphNode_st& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) used[node.As<ConditionalWork>().condition->handle] = true;
  });
  for (const auto& [handle, is_used] : used) {
    if (!is_used) return true;
  }
  return false;
}

Refused CheckForExec(State& state, CUgraph graph, unsigned long long flags) {
  const Refused wrong{CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  if ((flags & ~kKnownFlags) != 0) return wrong;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0) return wrong;
    return {state.Refuse("a graph that the device launches"), CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  }
  if (!state.graphs.contains(graph) || graph->owner != nullptr || graph->captures != 0) return wrong;
  if (CUgraphNode node = FindCycleBelow(*graph); node != nullptr) {
    return {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node};
  }
  if (HasUnusedHandle(*graph)) {
    return {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, nullptr};
  }
  // CUgraphNodeType: a graph with conditional nodes has at most one executable graph at a time.
  if (!graph->instance.expired() && HasNode(*graph, CU_GRAPH_NODE_TYPE_CONDITIONAL)) return wrong;
  Refused dead{CUDA_SUCCESS, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  dead.code = CheckAlive(state, *graph, &dead.node);
  return dead.code == CUDA_SUCCESS ? Refused{} : dead;
}

CUgraphExec MakeExec(State& state, CUgraph graph, unsigned long long flags) {
  auto* const exec = new CUgraphExec_st{.id = static_cast<unsigned int>(NextGraphId()), .flags = flags};
  exec->graph = CopyGraph(*graph, &exec->nodes);
  exec->instance = std::make_shared<const int>(0);
  graph->instance = exec->instance;
  state.graph_execs.insert(exec);
  return exec;
}

// Queues a launch behind the stream's work and behind the previous launch, on whatever stream that was (Driver API,
// cuGraphLaunch).
CUresult QueueLaunch(State& state, CUgraphExec exec, CUstream stream) {
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  EnqueueWait(stream, exec->last);
  auto run = std::make_shared<GraphRun>(TakeLaunch(exec), state.NextSeed());
  EnqueueWork(state, stream, [run] { return run->Run(); }, [run] { run->Abandon(); });
  exec->last = EnqueueMark(state, stream);
  return CUDA_SUCCESS;
}

// Records a launch as a child graph with the executable graph's current parameters.
CUresult RecordLaunch(State& state, CUgraphExec exec, CUstream stream) {
  if (HasNode(*exec->graph, CU_GRAPH_NODE_TYPE_CONDITIONAL)) {
    return InvalidateCapture(stream, state.Refuse("a recorded launch of a graph with conditional nodes"));
  }
  NewNode node{.type = CU_GRAPH_NODE_TYPE_GRAPH};
  node.bodies.push_back(CopyGraph(*exec->graph, nullptr));
  return RecordNode(state, stream, std::move(node));
}

}  // namespace

CUresult CheckAlive(State& state, const CUgraph_st& graph, CUgraphNode* dead) {
  CUgraphNode found = nullptr;
  VisitNodes(graph, [&](CUgraphNode_st& node) {
    if (found != nullptr) return;
    const bool is_event = node.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT || node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    if (is_event && !state.events.contains(node.As<EventWork>().event)) found = &node;
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL && !IsLaunchable(state, node.As<KernelWork>())) found = &node;
  });
  if (dead != nullptr) *dead = found;
  return found == nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUgraphNode FindInExec(const State& state, CUgraphExec exec, CUgraphNode node) {
  if (!state.graph_execs.contains(exec) || !state.graph_nodes.contains(node)) return nullptr;
  const auto found = exec->nodes.find(node->id);
  return found != exec->nodes.end() ? found->second : nullptr;
}

std::shared_ptr<const CUgraph_st> TakeLaunch(CUgraphExec exec) {
  if (exec->launched == nullptr) exec->launched = CopyGraph(*exec->graph, nullptr);
  return exec->launched;
}

void ReplaceGraph(CUgraphExec exec, const CUgraph_st& graph) {
  std::map<uint64_t, CUgraphNode> pairs;  // from nodes of the executable graph to nodes of the new graph
  Copies copies;
  std::unique_ptr<CUgraph_st> replacement = CopyGraph(graph, &copies);
  std::vector<CUgraphNode> before;
  std::vector<CUgraphNode> after;
  VisitNodes(*exec->graph, [&](CUgraphNode_st& node) { before.push_back(&node); });
  VisitNodes(*replacement, [&](CUgraphNode_st& node) { after.push_back(&node); });
  for (size_t i = 0; i < before.size(); ++i) {
    after[i]->enabled = before[i]->enabled;
    pairs[before[i]->id] = after[i];
  }
  for (auto& [source, node] : exec->nodes) node = pairs.at(node->id);
  exec->graph = std::move(replacement);
  exec->launched = nullptr;
}

extern "C" CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  const Call call("cuGraphInstantiateWithFlags", kContext);
  if (call.refused()) return call.result();
  // CUgraphInstantiate_flags: the upload flag is allowed only for cuGraphInstantiateWithParams.
  if (exec == nullptr || (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  const Refused refused = CheckForExec(call.state(), graph, flags);
  if (refused.code == CUDA_SUCCESS) *exec = MakeExec(call.state(), graph, flags);
  return refused.code;
}

extern "C" CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const Call call("cuGraphInstantiateWithParams", kContext);
  if (call.refused()) return call.result();
  if (exec == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Refused refused = CheckForExec(call.state(), graph, params->flags);
  const bool uploads = (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  if (refused.code == CUDA_SUCCESS && uploads &&
      FindStream(call.state(), call.context(), params->hUploadStream) == nullptr) {
    refused = {CUDA_ERROR_INVALID_HANDLE, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  }
  params->result_out = refused.result;
  params->hErrNode_out = refused.node;
  if (refused.code == CUDA_SUCCESS) {
    *exec = MakeExec(call.state(), graph, params->flags & ~uint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD});
  }
  return refused.code;
}

extern "C" CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  const Call call("cuGraphExecGetFlags", kInitialized);
  if (call.refused()) return call.result();
  if (flags == nullptr || !call.state().graph_execs.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphExecGetId(CUgraphExec exec, unsigned int* id) {
  const Call call("cuGraphExecGetId", kInitialized);
  if (call.refused()) return call.result();
  if (id == nullptr || !call.state().graph_execs.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
  *id = exec->id;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
  const Call call("cuGraphUpload", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!state.graph_execs.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  EnqueueWait(stream, exec->last);
  exec->last = EnqueueMark(state, stream);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  const Call call("cuGraphLaunch", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!state.graph_execs.contains(exec)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult dead = CheckAlive(state, *exec->graph, nullptr); dead != CUDA_SUCCESS) return dead;
  return stream->capture != nullptr ? RecordLaunch(state, exec, stream) : QueueLaunch(state, exec, stream);
}

extern "C" CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const Call call("cuGraphExecDestroy", kInitialized);
  if (call.refused()) return call.result();
  if (call.state().graph_execs.erase(exec) == 0) return CUDA_ERROR_INVALID_VALUE;
  delete exec;  // launches in flight have copies of their own
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
