// SPDX-License-Identifier: Apache-2.0
//
// Kernels and their functions: their attributes, and the limits of their shared memory.
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

CUresult GetParameter(const CUkern_st& kernel, size_t index, size_t* offset, size_t* bytes) {
  if (index >= kernel.sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.offsets[index];
  if (bytes != nullptr) *bytes = kernel.sizes[index];
  return CUDA_SUCCESS;
}

CUresult GetAttribute(const CUkern_st& kernel, int max_dynamic_shared, int attribute, int* value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = kernel.max_threads;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = kernel.static_shared;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = kernel.local_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = kernel.registers;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = max_dynamic_shared;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = kernel.cluster;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = kernel.cluster > 0 ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetAttribute(CUfunc_st& function, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    function.carveout = value;
    return CUDA_SUCCESS;
  }
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    if (value != 0 && value != 1) return CUDA_ERROR_INVALID_VALUE;
    function.large_clusters = value == 1;
    return CUDA_SUCCESS;
  }
  const bool fits = value >= 0 && value <= kSharedBytesOptIn - function.kernel->static_shared;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || !fits) return CUDA_ERROR_INVALID_VALUE;
  function.max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

CUcontext ContextOf(const State& state, CUdevice device) {
  const bool known = device >= 0 && static_cast<size_t>(device) < state.contexts.size();
  return known ? state.contexts[static_cast<size_t>(device)].get() : nullptr;
}

}  // namespace

CUfunction FunctionOf(State& state, CUkernel kernel, CUcontext context) {
  std::unique_ptr<CUfunc_st>& function = kernel->functions[context];
  if (function == nullptr) {
    function = std::unique_ptr<CUfunc_st>(new CUfunc_st{kernel, context, kSharedBytes - kernel->static_shared});
    state.functions.insert(function.get());
  }
  return function.get();
}

extern "C" CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  const Call call("cuKernelGetFunction", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *function = FunctionOf(call.state(), kernel, call.context());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  const Call call("cuKernelGetAttribute", kInitialized);
  if (call.refused()) return call.result();
  CUcontext context = ContextOf(call.state(), device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  return GetAttribute(*kernel, FunctionOf(call.state(), kernel, context)->max_dynamic_shared, attribute, value);
}

extern "C" CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  const Call call("cuKernelSetAttribute", kInitialized);
  if (call.refused()) return call.result();
  CUcontext context = ContextOf(call.state(), device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  return SetAttribute(*FunctionOf(call.state(), kernel, context), attribute, value);
}

extern "C" CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  const Call call("cuFuncGetAttribute", kContext);
  if (call.refused()) return call.result();
  if (!call.state().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  return GetAttribute(*function->kernel, function->max_dynamic_shared, attribute, value);
}

extern "C" CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  const Call call("cuFuncSetAttribute", kContext, std::to_string(attribute) + "=" + std::to_string(value));
  if (call.refused()) return call.result();
  if (!call.state().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  return SetAttribute(*function, attribute, value);
}

extern "C" CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  const Call call("cuFuncGetParamInfo", kContext);
  if (call.refused()) return call.result();
  if (!call.state().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  return GetParameter(*function->kernel, index, offset, bytes);
}

extern "C" CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  const Call call("cuKernelGetParamInfo", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  return GetParameter(*kernel, index, offset, bytes);
}

}  // namespace callout::software_gpu
