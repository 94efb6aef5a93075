// SPDX-License-Identifier: Apache-2.0
//
// The parameters of nodes: they are checked when a node is made, and read back unchanged. All functions require the
// mutex of State.
#pragma once

#include "driver/graph.h"
#include "driver/state.h"

namespace callout::software_gpu {

using WorkPtr = std::shared_ptr<const Work>;

CUresult MakeKernelWork(State& state, CUcontext current, const CUDA_KERNEL_NODE_PARAMS_v2& params,
                        const KernelAttributes& attributes, WorkPtr* work);
CUresult MakeCopyWork(State& state, CUcontext context, const CUDA_MEMCPY3D& params, WorkPtr* work);
CUresult MakeSetWork(State& state, CUcontext context, const CUDA_MEMSET_NODE_PARAMS& params, WorkPtr* work);
CUresult MakeHostWork(const CUDA_HOST_NODE_PARAMS& params, WorkPtr* work);
CUresult MakeEventWork(State& state, CUevent event, WorkPtr* work);
CUresult MakeBatchWork(State& state, CUcontext current, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, WorkPtr* work);

/// Returns the parameters for a copy of one row. `from` and `to` are host addresses where their types are
/// CU_MEMORYTYPE_HOST.
CUDA_MEMCPY3D RowOf(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, size_t bytes);

/// Makes the work of a node from the parameters of cuGraphAddNode. Returns CUDA_ERROR_NOT_SUPPORTED, with the type's
/// name in the log, for types that this GPU does not have.
CUresult MakeWork(State& state, CUcontext current, const CUgraphNodeParams& params, WorkPtr* work);

/// The reverse of MakeWork. Borrowed: pointers in `params` are valid until the node's parameters change.
void ReadWork(const CUgraphNode_st& node, CUgraphNodeParams* params);

/// Returns the type's name for messages, such as "kernel".
const char* NameOf(CUgraphNodeType type);

/// Checks an attribute of a node. Returns CUDA_ERROR_INVALID_VALUE for attributes and values that a node cannot have.
CUresult CheckAttribute(CUlaunchAttributeID attribute, const CUlaunchAttributeValue& value);

}  // namespace callout::software_gpu
