// SPDX-License-Identifier: Apache-2.0
//
// The functions that read and change the parameters of a graph's nodes. Changes do not affect executable graphs.
#include <cstring>
#include <utility>

#include "driver/graph_works.h"

namespace callout::software_gpu {
namespace {

template <typename Give>
CUresult ReadNode(const char* function, CUgraphNode node, CUgraphNodeType type, const void* out, Give give) {
  const Call call(function, kInitialized);
  if (call.refused()) return call.result();
  if (out == nullptr || !call.state().graph_nodes.contains(node) || node->type != type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  give();
  return CUDA_SUCCESS;
}

template <typename Make>
CUresult SetNode(const char* function, unsigned needs, CUgraphNode node, CUgraphNodeType type, Make make) {
  const Call call(function, needs);
  if (call.refused()) return call.result();
  if (!call.state().graph_nodes.contains(node) || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  WorkPtr work;
  if (const CUresult wrong = make(call, &work); wrong != CUDA_SUCCESS) return wrong;
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

CUcontext ContextOf(const CUgraphNode_st& node) {
  return node.type == CU_GRAPH_NODE_TYPE_MEMCPY ? node.As<CopyWork>().context : node.As<SetWork>().context;
}

CUresult SetKernel(const Call& call, const CUgraphNode_st& node, const CUDA_KERNEL_NODE_PARAMS_v2* params,
                   WorkPtr* work) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return MakeKernelWork(call.state(), call.context(), *params, node.As<KernelWork>().attributes, work);
}

CUresult SetAny(const Call& call, const CUgraphNode_st& node, const CUgraphNodeParams& params, WorkPtr* work) {
  if (params.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    std::memcpy(&kernel, &params.kernel, sizeof(kernel));
    return SetKernel(call, node, &kernel, work);
  }
  const bool fixed = params.type == CU_GRAPH_NODE_TYPE_GRAPH || params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
                     params.type == CU_GRAPH_NODE_TYPE_EMPTY;
  return fixed ? CUDA_ERROR_NOT_SUPPORTED : MakeWork(call.state(), call.context(), params, work);
}

// Prepares the kernel's launch again with new attributes: a cooperative launch has checks of its own.
CUresult SetAttributes(const Call& call, CUgraphNode node, const KernelAttributes& attributes) {
  WorkPtr work;
  const KernelWork& before = node->As<KernelWork>();
  const CUresult wrong = MakeKernelWork(call.state(), before.context, before.params, attributes, &work);
  if (wrong == CUDA_SUCCESS) node->work = std::move(work);
  return wrong;
}

}  // namespace

extern "C" CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return ReadNode("cuGraphKernelNodeGetParams", node, CU_GRAPH_NODE_TYPE_KERNEL, params,
                  [&] { std::memcpy(params, &node->As<KernelWork>().params, sizeof(*params)); });
}

extern "C" CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return ReadNode("cuGraphKernelNodeGetParams", node, CU_GRAPH_NODE_TYPE_KERNEL, params,
                  [&] { *params = node->As<KernelWork>().params; });
}

extern "C" CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide = {};
  if (params != nullptr) std::memcpy(&wide, params, sizeof(*params));
  return cuGraphKernelNodeSetParams_v2(node, params != nullptr ? &wide : nullptr);
}

extern "C" CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return SetNode("cuGraphKernelNodeSetParams", kContext, node, CU_GRAPH_NODE_TYPE_KERNEL,
                 [&](const Call& call, WorkPtr* work) { return SetKernel(call, *node, params, work); });
}

extern "C" CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                                  CUkernelNodeAttrValue* value) {
  return ReadNode("cuGraphKernelNodeGetAttribute", node, CU_GRAPH_NODE_TYPE_KERNEL, value, [&] {
    const KernelAttributes& attributes = node->As<KernelWork>().attributes;
    const auto found = attributes.find(attribute);
    *value = found != attributes.end() ? found->second : CUkernelNodeAttrValue{};
  });
}

extern "C" CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                                  const CUkernelNodeAttrValue* value) {
  const Call call("cuGraphKernelNodeSetAttribute", kInitialized);
  if (call.refused()) return call.result();
  const bool known = call.state().graph_nodes.contains(node) && node->type == CU_GRAPH_NODE_TYPE_KERNEL;
  if (!known || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KernelAttributes attributes = node->As<KernelWork>().attributes;
  attributes[attribute] = *value;
  return SetAttributes(call, node, attributes);
}

extern "C" CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  const Call call("cuGraphKernelNodeCopyAttributes", kInitialized);
  if (call.refused()) return call.result();
  for (CUgraphNode node : {to, from}) {
    if (!call.state().graph_nodes.contains(node) || node->type != CU_GRAPH_NODE_TYPE_KERNEL) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return SetAttributes(call, to, from->As<KernelWork>().attributes);
}

extern "C" CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return ReadNode("cuGraphMemcpyNodeGetParams", node, CU_GRAPH_NODE_TYPE_MEMCPY, params,
                  [&] { *params = node->As<CopyWork>().params; });
}

extern "C" CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return SetNode("cuGraphMemcpyNodeSetParams", kInitialized, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                 [&](const Call& call, WorkPtr* work) {
                   if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                   return MakeCopyWork(call.state(), ContextOf(*node), *params, work);
                 });
}

extern "C" CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return ReadNode("cuGraphMemsetNodeGetParams", node, CU_GRAPH_NODE_TYPE_MEMSET, params,
                  [&] { *params = node->As<SetWork>().params; });
}

extern "C" CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return SetNode("cuGraphMemsetNodeSetParams", kInitialized, node, CU_GRAPH_NODE_TYPE_MEMSET,
                 [&](const Call& call, WorkPtr* work) {
                   if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                   return MakeSetWork(call.state(), ContextOf(*node), *params, work);
                 });
}

extern "C" CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return ReadNode("cuGraphHostNodeGetParams", node, CU_GRAPH_NODE_TYPE_HOST, params,
                  [&] { *params = node->As<HostWork>().params; });
}

extern "C" CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return SetNode("cuGraphHostNodeSetParams", kInitialized, node, CU_GRAPH_NODE_TYPE_HOST,
                 [&](const Call&, WorkPtr* work) {
                   return params == nullptr ? CUDA_ERROR_INVALID_VALUE : MakeHostWork(*params, work);
                 });
}

extern "C" CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return ReadNode("cuGraphEventRecordNodeGetEvent", node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event,
                  [&] { *event = node->As<EventWork>().event; });
}

extern "C" CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetNode("cuGraphEventRecordNodeSetEvent", kInitialized, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                 [&](const Call& call, WorkPtr* work) { return MakeEventWork(call.state(), event, work); });
}

extern "C" CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return ReadNode("cuGraphEventWaitNodeGetEvent", node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event,
                  [&] { *event = node->As<EventWork>().event; });
}

extern "C" CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetNode("cuGraphEventWaitNodeSetEvent", kInitialized, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                 [&](const Call& call, WorkPtr* work) { return MakeEventWork(call.state(), event, work); });
}

extern "C" CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return ReadNode("cuGraphBatchMemOpNodeGetParams", node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, [&] {
    CUgraphNodeParams all;
    ReadWork(*node, &all);
    *params = {all.memOp.ctx, all.memOp.count, all.memOp.paramArray, all.memOp.flags};
  });
}

extern "C" CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return SetNode("cuGraphBatchMemOpNodeSetParams", kContext, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                 [&](const Call& call, WorkPtr* work) {
                   if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
                   return MakeBatchWork(call.state(), call.context(), *params, work);
                 });
}

extern "C" CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams* params) {
  const Call call("cuGraphNodeGetParams", kInitialized);
  if (call.refused()) return call.result();
  if (params == nullptr || !call.state().graph_nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
  ReadWork(*node, params);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return SetNode("cuGraphNodeSetParams", kContext, node, params != nullptr ? params->type : CU_GRAPH_NODE_TYPE_EMPTY,
                 [&](const Call& call, WorkPtr* work) {
                   return params == nullptr ? CUDA_ERROR_INVALID_VALUE : SetAny(call, *node, *params, work);
                 });
}

extern "C" CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams* params) {
  return cuGraphNodeSetParams(node, params);
}

}  // namespace callout::software_gpu
