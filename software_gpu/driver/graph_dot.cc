// SPDX-License-Identifier: Apache-2.0
//
// cuGraphDebugDotPrint: writes a graph in Graphviz's format.
#include <fstream>
#include <sstream>

#include "driver/graph_works.h"

namespace callout::software_gpu {
namespace {

void DescribeKernel(const KernelWork& kernel, std::ostream& text) {
  const auto& params = kernel.params;
  text << "\\n"
       << kernel.name << "\\ngrid " << params.gridDimX << "," << params.gridDimY << "," << params.gridDimZ << " block "
       << params.blockDimX << "," << params.blockDimY << "," << params.blockDimZ << " shared " << params.sharedMemBytes;
  for (const auto& [attribute, value] : kernel.attributes) text << "\\nattribute " << attribute;
}

const char* KindOf(CUgraphConditionalNodeType type) {
  return type == CU_GRAPH_COND_TYPE_IF ? "if" : type == CU_GRAPH_COND_TYPE_WHILE ? "while" : "switch";
}

std::string Describe(const CUgraphNode_st& node) {
  std::ostringstream text;
  text << node.local_id << ": " << NameOf(node.type);
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      DescribeKernel(node.As<KernelWork>(), text);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const CUDA_MEMCPY3D& copy = node.As<CopyWork>().params;
      text << "\\n" << copy.WidthInBytes << " x " << copy.Height << " x " << copy.Depth << " bytes";
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS& set = node.As<SetWork>().params;
      text << "\\n"
           << set.width << " x " << set.height << " elements of " << set.elementSize << " bytes = " << set.value;
      break;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      text << "\\n" << node.As<BatchWork>().operations.size() << " operations";
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      text << " " << KindOf(node.As<ConditionalWork>().type) << "\\nhandle "
           << node.As<ConditionalWork>().condition->handle;
      break;
    default:
      break;
  }
  return text.str();
}

void WriteGraph(const CUgraph_st& graph, std::ostream& out) {
  for (const auto& node : graph.nodes) {
    out << "  n" << node->id << " [label=\"" << Describe(*node) << "\"];\n";
    for (const Edge& edge : node->after) {
      out << "  n" << edge.from->id << " -> n" << node->id;
      if (!IsZero(edge.data)) {
        out << " [label=\"port " << int{edge.data.from_port} << " type " << int{edge.data.type} << "\"]";
      }
      out << ";\n";
    }
    for (size_t i = 0; i < node->bodies.size(); ++i) {
      out << "  subgraph cluster_" << node->bodies[i]->id << " {\n  label=\"body " << i << " of " << node->local_id
          << "\";\n";
      WriteGraph(*node->bodies[i], out);
      out << "  }\n";
      if (!node->bodies[i]->nodes.empty()) {
        out << "  n" << node->id << " -> n" << node->bodies[i]->nodes.front()->id << " [style=dashed];\n";
      }
    }
  }
}

}  // namespace

extern "C" CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned int /*flags*/) {
  const Call call("cuGraphDebugDotPrint", kInitialized);
  if (call.refused()) return call.result();
  if (path == nullptr || !call.state().graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  std::ofstream file(path);
  file << "digraph graph_" << graph->id << " {\n";
  WriteGraph(*graph, file);
  file << "}\n";
  file.flush();
  return file.good() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace callout::software_gpu
