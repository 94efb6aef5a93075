// SPDX-License-Identifier: Apache-2.0
#include "driver/graph_works.h"

#include <cstring>
#include <limits>
#include <utility>

#include "driver/launches.h"

namespace callout::software_gpu {
namespace {

constexpr unsigned int kMaxBatchOperations = 256;

// One side of a copy, under field names without "src" and "dst".
struct CopySide {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  size_t x, y, z, pitch, height;
};

CopySide SourceOf(const CUDA_MEMCPY3D& copy) {
  return {copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcXInBytes,
          copy.srcY,          copy.srcZ,    copy.srcPitch,  copy.srcHeight};
}

CopySide TargetOf(const CUDA_MEMCPY3D& copy) {
  return {copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstXInBytes,
          copy.dstY,          copy.dstZ,    copy.dstPitch,  copy.dstHeight};
}

// Driver API, cuMemcpy3D: the pitch is at least the row that is copied, and all rows lie in the operand's memory.
CUresult CheckSide(State& state, const CUDA_MEMCPY3D& copy, const CopySide& side) {
  if (side.type == CU_MEMORYTYPE_ARRAY) return state.Refuse("a copy of a CUDA array");
  const bool host = side.type == CU_MEMORYTYPE_HOST;
  if (!host && side.type != CU_MEMORYTYPE_DEVICE && side.type != CU_MEMORYTYPE_UNIFIED) return CUDA_ERROR_INVALID_VALUE;
  const bool rows = copy.Height > 1 || copy.Depth > 1;
  if (rows && side.pitch < side.x + copy.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  if (copy.Depth > 1 && side.height < side.y + copy.Height) return CUDA_ERROR_INVALID_VALUE;
  const auto address = host ? reinterpret_cast<CUdeviceptr>(side.host) : side.device;
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool is_device = state.memory.Find(address, 1).memory != nullptr;
  if (host) return is_device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  if (side.type == CU_MEMORYTYPE_UNIFIED && !is_device) return CUDA_SUCCESS;
  const size_t slice = rows ? side.pitch * (copy.Depth > 1 ? side.height : 0) : 0;
  const size_t first = side.x + side.y * (rows ? side.pitch : 0) + side.z * slice;
  const size_t bytes = (copy.Depth - 1) * slice + (copy.Height - 1) * side.pitch + copy.WidthInBytes;
  return FindMemory(state, address + first, bytes) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Operand OperandAt(State& state, CUdeviceptr address) {
  const auto place = state.memory.Find(address, 1);
  if (place.memory != nullptr) return {CU_MEMORYTYPE_DEVICE, place.context};
  return {CU_MEMORYTYPE_HOST, PinnedContext(state, address)};
}

Operand OperandOf(State& state, const CopySide& side) {
  return OperandAt(state, side.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(side.host) : side.device);
}

template <typename T>
void Put(WorkPtr* work, T value) {
  *work = std::make_shared<const Work>(std::move(value));
}

CUcontext OrCurrent(CUcontext context, CUcontext current) { return context != nullptr ? context : current; }

// Checks an operation on a value (Driver API, CUstreamWaitValue_flags and CUstreamWriteValue_flags).
CUresult CheckValue(State& state, CUdeviceptr address, size_t bytes, unsigned int flags, unsigned int known) {
  if ((flags & ~known) != 0 || address % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  return FindMemory(state, address, bytes) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckOperation(State& state, const CUstreamBatchMemOpParams& operation) {
  constexpr unsigned int kWaits = CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
  constexpr unsigned int kWrites = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
  const auto& wait = operation.waitValue;
  const auto& write = operation.writeValue;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return CheckValue(state, wait.address, 4, wait.flags, kWaits);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return CheckValue(state, wait.address, 8, wait.flags, kWaits);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return CheckValue(state, write.address, 4, write.flags, kWrites);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return CheckValue(state, write.address, 8, write.flags, kWrites);
    case CU_STREAM_MEM_OP_BARRIER:
      return operation.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return operation.flushRemoteWrites.flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return state.Refuse("an operation of a batch");
  }
}

}  // namespace

CUresult CheckAttribute(CUlaunchAttributeID attribute, const CUlaunchAttributeValue& value) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      return value.cooperative == 0 || value.cooperative == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return value.deviceUpdatableKernelNode.deviceUpdatable == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return CUDA_SUCCESS;
    default:
      // Other attributes belong to streams or launches only.
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MakeCopyWork(State& state, CUcontext context, const CUDA_MEMCPY3D& params, WorkPtr* work) {
  if (params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (params.srcLOD != 0 || params.dstLOD != 0 || params.reserved0 != nullptr || params.reserved1 != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult wrong = CheckSide(state, params, SourceOf(params)); wrong != CUDA_SUCCESS) return wrong;
  if (const CUresult wrong = CheckSide(state, params, TargetOf(params)); wrong != CUDA_SUCCESS) return wrong;
  Put(work, CopyWork{params, context, OperandOf(state, SourceOf(params)), OperandOf(state, TargetOf(params))});
  return CUDA_SUCCESS;
}

CUDA_MEMCPY3D RowOf(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = from_type;
  copy.dstMemoryType = to_type;
  copy.srcDevice = from_type == CU_MEMORYTYPE_HOST ? 0 : from;
  copy.srcHost = from_type == CU_MEMORYTYPE_HOST ? reinterpret_cast<const void*>(from) : nullptr;
  copy.dstDevice = to_type == CU_MEMORYTYPE_HOST ? 0 : to;
  copy.dstHost = to_type == CU_MEMORYTYPE_HOST ? reinterpret_cast<void*>(to) : nullptr;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

CUresult MakeSetWork(State& state, CUcontext context, const CUDA_MEMSET_NODE_PARAMS& params, WorkPtr* work) {
  const size_t element = params.elementSize;
  if ((element != 1 && element != 2 && element != 4) || params.width == 0 || params.height == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (element < 4 && params.value >> (8 * element) != 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t row = params.width * element;
  if (params.dst % element != 0) return CUDA_ERROR_INVALID_VALUE;
  if (params.height > 1 && (params.pitch < row || params.pitch % element != 0)) return CUDA_ERROR_INVALID_VALUE;
  const size_t bytes = (params.height - 1) * params.pitch + row;
  if (FindMemory(state, params.dst, bytes) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Put(work, SetWork{params, context, OperandAt(state, params.dst)});
  return CUDA_SUCCESS;
}

CUresult MakeHostWork(const CUDA_HOST_NODE_PARAMS& params, WorkPtr* work) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Put(work, HostWork{params});
  return CUDA_SUCCESS;
}

CUresult MakeEventWork(State& state, CUevent event, WorkPtr* work) {
  if (!state.events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  Put(work, EventWork{event});
  return CUDA_SUCCESS;
}

CUresult MakeBatchWork(State& state, CUcontext current, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, WorkPtr* work) {
  if (params.count == 0 || params.count > kMaxBatchOperations || params.paramArray == nullptr || params.flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  BatchWork batch{{params.paramArray, params.paramArray + params.count}, OrCurrent(params.ctx, current), params.flags};
  for (const CUstreamBatchMemOpParams& operation : batch.operations) {
    if (const CUresult wrong = CheckOperation(state, operation); wrong != CUDA_SUCCESS) return wrong;
  }
  Put(work, std::move(batch));
  return CUDA_SUCCESS;
}

CUresult MakeKernelWork(State& state, CUcontext current, const CUDA_KERNEL_NODE_PARAMS_v2& params,
                        const KernelAttributes& attributes, WorkPtr* work) {
  for (const auto& [attribute, value] : attributes) {
    if (const CUresult wrong = CheckAttribute(attribute, value); wrong != CUDA_SUCCESS) return wrong;
  }
  KernelWork kernel{};
  kernel.params = params;
  kernel.attributes = attributes;
  if (const CUresult wrong = PrepareLaunch(state, current, &kernel); wrong != CUDA_SUCCESS) return wrong;
  Put(work, std::move(kernel));
  return CUDA_SUCCESS;
}

CUresult MakeWork(State& state, CUcontext current, const CUgraphNodeParams& params, WorkPtr* work) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v2 kernel;
      static_assert(sizeof(kernel) == sizeof(params.kernel));
      std::memcpy(&kernel, &params.kernel, sizeof(kernel));
      return MakeKernelWork(state, current, kernel, {}, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0 || params.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return MakeCopyWork(state, OrCurrent(params.memcpy.copyCtx, current), params.memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& set = params.memset;
      return MakeSetWork(state, OrCurrent(set.ctx, current),
                         {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height}, work);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return MakeHostWork({params.host.fn, params.host.userData}, work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return MakeEventWork(state, params.eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return MakeEventWork(state, params.eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return MakeBatchWork(state, current,
                           {params.memOp.ctx, params.memOp.count, params.memOp.paramArray, params.memOp.flags}, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    default:
      return state.Refuse(std::string("a node of type ") + NameOf(params.type));
  }
}

void ReadWork(const CUgraphNode_st& node, CUgraphNodeParams* params) {
  *params = {};
  params->type = node.type;
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      std::memcpy(&params->kernel, &node.As<KernelWork>().params, sizeof(params->kernel));
      return;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      params->memcpy.copyCtx = node.As<CopyWork>().context;
      params->memcpy.copyParams = node.As<CopyWork>().params;
      return;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& [set, context, to] = node.As<SetWork>();
      params->memset = {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height, context};
      return;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      params->host.fn = node.As<HostWork>().params.fn;
      params->host.userData = node.As<HostWork>().params.userData;
      return;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      params->eventWait.event = node.As<EventWork>().event;
      return;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      params->eventRecord.event = node.As<EventWork>().event;
      return;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const BatchWork& batch = node.As<BatchWork>();
      params->memOp = {batch.context, static_cast<unsigned int>(batch.operations.size()),
                       const_cast<CUstreamBatchMemOpParams*>(batch.operations.data()), batch.flags};
      return;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      params->graph = {node.body_handles.front(), CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID};
      return;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      const auto& [type, condition, context] = node.As<ConditionalWork>();
      params->conditional = {condition->handle, type, static_cast<unsigned int>(node.body_handles.size()),
                             const_cast<CUgraph*>(node.body_handles.data()), context};
      return;
    }
    default:
      return;
  }
}

const char* NameOf(CUgraphNodeType type) {
  static constexpr const char* kNames[] = {"kernel",
                                           "memcpy",
                                           "memset",
                                           "host",
                                           "child graph",
                                           "empty",
                                           "event wait",
                                           "event record",
                                           "semaphore signal",
                                           "semaphore wait",
                                           "memory allocation",
                                           "memory free",
                                           "batch memory operations",
                                           "conditional",
                                           "batch memcpy"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // namespace callout::software_gpu
