// SPDX-License-Identifier: Apache-2.0
//
// The rules for changes in an executable graph (Driver API, cuGraphExecUpdate, and the functions that set one node's
// parameters).
#include "driver/graph_exec.h"

namespace callout::software_gpu {
namespace {

bool IsRow(const CUDA_MEMCPY3D& copy) { return copy.Height == 1 && copy.Depth == 1; }

int AttributeOf(const KernelWork& kernel, CUlaunchAttributeID attribute, int CUlaunchAttributeValue::* value) {
  const auto found = kernel.attributes.find(attribute);
  return found != kernel.attributes.end() ? found->second.*value : 0;
}

CUgraphExecUpdateResult CompareKernels(const KernelWork& before, const KernelWork& after, unsigned long long flags) {
  if (before.context != after.context) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  const auto differ = [&](CUlaunchAttributeID attribute, int CUlaunchAttributeValue::* value) {
    return AttributeOf(before, attribute, value) != AttributeOf(after, attribute, value);
  };
  if (differ(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &CUlaunchAttributeValue::cooperative)) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  }
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0 &&
      differ(CU_LAUNCH_ATTRIBUTE_PRIORITY, &CUlaunchAttributeValue::priority)) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// The kinds and contexts of the operands must stay, and copies of more than one row must stay unchanged.
bool IsSameCopy(const CopyWork& before, const CopyWork& after) {
  const auto& [old, old_context, old_from, old_to] = before;
  const auto& [now, now_context, now_from, now_to] = after;
  if (old_context != now_context || old_from != now_from || old_to != now_to) return false;
  if (IsRow(old) && IsRow(now)) return true;
  return old.WidthInBytes == now.WidthInBytes && old.Height == now.Height && old.Depth == now.Depth;
}

bool IsSameSet(const SetWork& before, const SetWork& after) {
  const auto& [old, old_context, old_to] = before;
  const auto& [now, now_context, now_to] = after;
  if (old_context != now_context || old_to != now_to || old.height != now.height) return false;
  return old.height == 1 || (old.width == now.width && old.elementSize == now.elementSize && old.pitch == now.pitch);
}

bool IsWait(CUstreamBatchMemOpType type) {
  return type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

// Driver API, cuGraphExecNodeSetParams: addresses, values, and the comparison of a wait may change.
bool IsSameBatch(const BatchWork& before, const BatchWork& after) {
  if (before.context != after.context || before.operations.size() != after.operations.size()) return false;
  for (size_t i = 0; i < before.operations.size(); ++i) {
    const auto& old = before.operations[i];
    const auto& now = after.operations[i];
    if (old.operation != now.operation) return false;
    if (!IsWait(old.operation) && old.writeValue.flags != now.writeValue.flags) return false;
  }
  return true;
}

CUgraphExecUpdateResult CompareNodes(const CUgraphNode_st& before, const CUgraphNode_st& after,
                                     unsigned long long flags) {
  if (before.type != after.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (before.bodies.size() != after.bodies.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  if (before.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    const bool same = before.As<ConditionalWork>().type == after.As<ConditionalWork>().type &&
                      before.As<ConditionalWork>().context == after.As<ConditionalWork>().context;
    return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  return after.work != nullptr ? CompareWork(before, *after.work, flags) : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResultInfo CompareEdges(const CUgraphNode_st& before, const CUgraphNode_st& after) {
  constexpr auto kChanged = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  auto* const node = const_cast<CUgraphNode>(&after);
  if (before.after.size() != after.after.size()) return {kChanged, node, nullptr};
  for (size_t i = 0; i < after.after.size(); ++i) {
    const Edge& old = before.after[i];
    const Edge& now = after.after[i];
    const bool same = old.from->position == now.from->position && old.data.type == now.data.type &&
                      old.data.from_port == now.data.from_port;
    if (!same) return {kChanged, node, now.from};
  }
  return {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
}

}  // namespace

CUgraphExecUpdateResult CompareWork(const CUgraphNode_st& node, const Work& work, unsigned long long flags) {
  constexpr auto kChanged = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  const auto when = [&](bool same) { return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : kChanged; };
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return CompareKernels(node.As<KernelWork>(), std::get<KernelWork>(work), flags);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return when(IsSameCopy(node.As<CopyWork>(), std::get<CopyWork>(work)));
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return when(IsSameSet(node.As<SetWork>(), std::get<SetWork>(work)));
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return when(IsSameBatch(node.As<BatchWork>(), std::get<BatchWork>(work)));
    default:
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
}

CUgraphExecUpdateResultInfo CompareGraphs(const CUgraph_st& before, const CUgraph_st& after, unsigned long long flags) {
  if (before.nodes.size() != after.nodes.size()) {
    return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
  }
  for (size_t i = 0; i < before.nodes.size(); ++i) {
    const CUgraphNode_st& old = *before.nodes[i];
    const CUgraphNode_st& now = *after.nodes[i];
    const CUgraphExecUpdateResultInfo edges = CompareEdges(old, now);
    if (edges.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return edges;
    const CUgraphExecUpdateResult result = CompareNodes(old, now, flags);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return {result, after.nodes[i].get(), nullptr};
    for (size_t body = 0; body < old.bodies.size(); ++body) {
      const CUgraphExecUpdateResultInfo below = CompareGraphs(*old.bodies[body], *now.bodies[body], flags);
      if (below.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return below;
    }
  }
  return {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
}

}  // namespace callout::software_gpu
