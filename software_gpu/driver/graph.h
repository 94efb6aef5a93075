// SPDX-License-Identifier: Apache-2.0
//
// Graphs as CUDA's Driver API describes them (Graph Management): nodes with their parameters and the edges between
// them. An executable graph, and each of its launches, holds a copy of a graph. A node's parameters are never changed
// but replaced, so that copies share them. The mutex of State guards graphs with handles; a launch owns its copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "driver/cuda_types.h"
#include "driver/user_objects.h"

namespace callout::software_gpu {

using KernelAttributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

/// The value behind a conditional handle.
struct Condition {
  Condition(CUgraphConditionalHandle its_handle, CUcontext its_context, uint32_t its_initial, bool assigned)
      : handle(its_handle), context(its_context), initial(its_initial), assigned_at_launch(assigned) {}
  CUgraphConditionalHandle handle;
  CUcontext context;
  uint32_t initial;
  bool assigned_at_launch;
  std::atomic<uint32_t> value{0};
};

/// A kernel's launch, with a copy of its parameters.
struct KernelWork {
  CUDA_KERNEL_NODE_PARAMS_v2 params;  ///< The caller's parameters, with pointers to the copies.
  CUfunction function;
  std::string name;
  CUcontext context;
  std::shared_ptr<const void> copies;  ///< Holds the copies of the parameters.
  KernelAttributes attributes;
  std::function<CUresult()> run;
};

/// The memory of a copy or a set, as it was when the node was made.
struct Operand {
  CUmemorytype type = CU_MEMORYTYPE_HOST;  ///< Never unified, but the type of the address at that time.
  CUcontext context = nullptr;             ///< Set for device and pinned memory.
  bool operator==(const Operand&) const = default;
};

struct CopyWork {
  CUDA_MEMCPY3D params;
  CUcontext context;
  Operand from;
  Operand to;
};

struct SetWork {
  CUDA_MEMSET_NODE_PARAMS params;
  CUcontext context;
  Operand to;
};

struct HostWork {
  CUDA_HOST_NODE_PARAMS params;
};

/// A record of an event, or a wait, that is a node and not an edge.
struct EventWork {
  CUevent event;
};

struct BatchWork {
  std::vector<CUstreamBatchMemOpParams> operations;
  CUcontext context;
  unsigned int flags;
};

struct ConditionalWork {
  CUgraphConditionalNodeType type;
  std::shared_ptr<Condition> condition;
  CUcontext context;
};

/// Empty nodes and child graphs have no work.
using Work =
    std::variant<std::monostate, KernelWork, CopyWork, SetWork, HostWork, EventWork, BatchWork, ConditionalWork>;

struct Edge {
  CUgraphNode from;
  CUgraphEdgeData data;
};
using Edges = std::vector<Edge>;

struct Capture;

}  // namespace callout::software_gpu

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  unsigned int local_id = 0;
  uint64_t id = 0;      ///< Unique in the process. Copies of a node have ids of their own.
  uint64_t origin = 0;  ///< The id of the node of which this one is a copy.
  size_t position = 0;  ///< The index among the graph's nodes, for GraphRun.
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const callout::software_gpu::Work> work = {};
  callout::software_gpu::Edges after = {};
  std::vector<std::unique_ptr<CUgraph_st>> bodies = {};  ///< For a child graph or a conditional node.
  std::vector<CUgraph> body_handles = {};
  bool enabled = true;

  template <typename T>
  const T& As() const {
    return std::get<T>(*work);
  }
};

struct CUgraph_st {
  unsigned int id = 0;
  CUgraphNode owner = nullptr;  ///< The node whose body this graph is.
  bool moved = false;           ///< True if a caller moved the graph to its owner, false if it was made for the owner.
  CUcontext conditional = nullptr;  ///< The context of the conditional node above this graph, if there is one.
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes = {};
  unsigned int nodes_made = 0;
  std::map<CUgraphConditionalHandle, std::shared_ptr<callout::software_gpu::Condition>> conditions = {};
  std::weak_ptr<const void> instance = {};  ///< Lives as long as the graph's latest executable graph.
  unsigned int captures = 0;                ///< The number of captures that add to the graph.
  callout::software_gpu::UserObjects objects = {};
};

namespace callout::software_gpu {

/// Copies of a graph's nodes, by the `id` of the original.
using Copies = std::unordered_map<uint64_t, CUgraphNode>;

uint64_t NextGraphId();

/// Returns a copy with the order of nodes and edges kept. Copies share conditions with the original.
std::unique_ptr<CUgraph_st> CopyGraph(const CUgraph_st& graph, Copies* copies);

/// Calls `use` for the graph's nodes and the nodes of all graphs below it.
void VisitNodes(const CUgraph_st& graph, const std::function<void(CUgraphNode_st&)>& use);
/// True if the graph, or a graph below it, has a node of this type.
bool HasNode(const CUgraph_st& graph, CUgraphNodeType type);

/// Returns a node on a cycle; null if the graph has no cycle.
CUgraphNode FindCycle(const CUgraph_st& graph);
bool IsZero(const CUgraphEdgeData& data);
/// True if an edge between nodes of these types may have this data.
bool IsEdge(CUgraphNodeType from, CUgraphNodeType to, const CUgraphEdgeData& data);
/// Returns the nodes that directly follow `node`, in the order of their making.
Edges DependentsOf(const CUgraphNode_st& node);
/// Returns `nodes` and all nodes that precede them.
std::map<uint64_t, CUgraphNode> Behind(const Edges& nodes);

}  // namespace callout::software_gpu
