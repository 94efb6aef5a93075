// SPDX-License-Identifier: Apache-2.0
//
// Graphs as CUDA's Driver API describes them (Graph Management): nodes with their parameters and the edges between
// them. Also what an executable graph and each of its launches hold: a copy of the graph. The parameters of a node are
// never changed but exchanged, so that copies share them. Graphs of handles are guarded by the mutex of State; the
// copy that a launch has is its own.
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

/// What a conditional handle stands for.
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
  CUDA_KERNEL_NODE_PARAMS_v2 params;  ///< As they were given, with pointers to the copies.
  CUfunction function;
  std::string name;
  CUcontext context;
  std::shared_ptr<const void> copies;  ///< Of parameters.
  KernelAttributes attributes;
  std::function<CUresult()> run;
};

/// Memory of a copy or a set, as it was when the node was made.
struct Operand {
  CUmemorytype type = CU_MEMORYTYPE_HOST;  ///< Never unified: what the address is then.
  CUcontext context = nullptr;             ///< Of device and pinned memory.
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

/// The records and waits of events that are no edges.
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

/// Empty nodes and child graphs have none.
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
  uint64_t id = 0;      ///< Of this process. Copies of a node have their own.
  uint64_t origin = 0;  ///< The node that this one is a copy of, if it is one.
  size_t position = 0;  ///< Among the nodes of its graph. For those who run it.
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const callout::software_gpu::Work> work = {};
  callout::software_gpu::Edges after = {};
  std::vector<std::unique_ptr<CUgraph_st>> bodies = {};  ///< Of a child graph or a conditional node.
  std::vector<CUgraph> body_handles = {};
  bool enabled = true;

  template <typename T>
  const T& As() const {
    return std::get<T>(*work);
  }
};

struct CUgraph_st {
  unsigned int id = 0;
  CUgraphNode owner = nullptr;      ///< Whose body it is.
  bool moved = false;               ///< It was given to its owner, and not made for it.
  CUcontext conditional = nullptr;  ///< Of the conditional node whose body it is, or is below.
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes = {};
  unsigned int nodes_made = 0;
  std::map<CUgraphConditionalHandle, std::shared_ptr<callout::software_gpu::Condition>> conditions = {};
  std::weak_ptr<const void> instance = {};  ///< Lives as long as its latest executable graph.
  unsigned int captures = 0;                ///< That are adding to it.
  callout::software_gpu::UserObjects objects = {};
};

namespace callout::software_gpu {

/// Nodes of a graph, by `id`, and their copies.
using Copies = std::unordered_map<uint64_t, CUgraphNode>;

uint64_t NextGraphId();

/// A copy with the same order of nodes and edges, below which conditions stay the same.
std::unique_ptr<CUgraph_st> CopyGraph(const CUgraph_st& graph, Copies* copies);

/// Calls `use` for the graph's nodes and those of all graphs below it.
void VisitNodes(const CUgraph_st& graph, const std::function<void(CUgraphNode_st&)>& use);
/// True if there is a node of the type in the graph or below it.
bool HasNode(const CUgraph_st& graph, CUgraphNodeType type);

/// Null if the edges are those of an acyclic graph; otherwise a node of a cycle.
CUgraphNode FindCycle(const CUgraph_st& graph);
bool IsZero(const CUgraphEdgeData& data);
/// Checks that data may be on an edge between nodes.
bool IsEdge(CUgraphNodeType from, CUgraphNodeType to, const CUgraphEdgeData& data);
/// Nodes that come after `node` directly, in the order of their making.
Edges DependentsOf(const CUgraphNode_st& node);
/// `nodes` and all that they come after.
std::map<uint64_t, CUgraphNode> Behind(const Edges& nodes);

}  // namespace callout::software_gpu
