// SPDX-License-Identifier: Apache-2.0
//
// The parameters of nodes: checked when a node is made, with the mutex of State held, and given back as they are.
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

/// A copy of one row; `from` and `to` are addresses of host memory where their types say so.
CUDA_MEMCPY3D RowOf(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, size_t bytes);

/// Of the types above, from what cuGraphAddNode takes. CUDA_ERROR_NOT_SUPPORTED, with the type's name in the log, for
/// nodes that this GPU does not have.
CUresult MakeWork(State& state, CUcontext current, const CUgraphNodeParams& params, WorkPtr* work);

/// The reverse of MakeWork. Borrowed: the pointers in it, valid until the node's parameters change.
void ReadWork(const CUgraphNode_st& node, CUgraphNodeParams* params);

/// "kernel" and so on; for texts.
const char* NameOf(CUgraphNodeType type);

/// Attributes that a node may have; CUDA_ERROR_INVALID_VALUE for values that are not allowed.
CUresult CheckAttribute(CUlaunchAttributeID attribute, const CUlaunchAttributeValue& value);

}  // namespace callout::software_gpu
