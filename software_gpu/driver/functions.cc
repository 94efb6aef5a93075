// SPDX-License-Identifier: Apache-2.0
//
// Functions and kernels: their images, whether they are loaded, and how many of their blocks fit (Driver API, Execution
// Control, Library Management, Occupancy).
#include <algorithm>

#include "driver/programs.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

// Counts blocks as cuOccupancyMaxActiveBlocksPerMultiprocessor does: by threads, blocks, registers and shared memory.
int BlocksOfMultiprocessor(const CUkern_st& kernel, int block, size_t dynamic_shared) {
  const int threads = (block + 31) / 32 * 32;
  const size_t shared = static_cast<size_t>(kernel.static_shared) + dynamic_shared + kReservedSharedBytes;
  const auto by_shared = static_cast<int>(kSharedBytesOfMultiprocessor / shared);
  const int by_registers = 65536 / (std::max(kernel.registers, 1) * threads);
  return std::min({kBlocksOfMultiprocessor, kThreadsOfMultiprocessor / threads, by_shared, by_registers});
}

CUfunc_st* FindFunction(State& state, CUfunction handle, CUcontext context) {
  if (state.functions.contains(handle)) return handle;
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  return state.kernels.contains(kernel) ? FunctionOf(state, kernel, context) : nullptr;
}

CUresult CountBlocks(const Call& call, int* blocks, CUfunction handle, int block, size_t dynamic_shared) {
  if (call.refused()) return call.result();
  CUfunc_st* const function = FindFunction(call.state(), handle, call.context());
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (block <= 0) return CUDA_ERROR_INVALID_VALUE;
  const bool fits = block <= function->kernel->max_threads &&
                    dynamic_shared <= static_cast<size_t>(kSharedBytesOptIn - function->kernel->static_shared);
  *blocks = fits ? BlocksOfMultiprocessor(*function->kernel, block, dynamic_shared) : 0;
  return CUDA_SUCCESS;
}

}  // namespace

int MaxCooperativeBlocks(const CUkern_st& kernel, int block, size_t dynamic_shared) {
  return kMultiprocessors * BlocksOfMultiprocessor(kernel, block, dynamic_shared);
}

extern "C" CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block,
                                                                size_t dynamic_shared) {
  const Call call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kContext);
  return CountBlocks(call, blocks, function, block, dynamic_shared);
}

extern "C" CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int block,
                                                                         size_t dynamic_shared, unsigned int) {
  const Call call("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", kContext);
  return CountBlocks(call, blocks, function, block, dynamic_shared);
}

extern "C" CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                                     CUoccupancyB2DSize shared_of, size_t dynamic_shared, int limit) {
  const Call call("cuOccupancyMaxPotentialBlockSize", kContext);
  if (call.refused()) return call.result();
  CUfunc_st* const function = FindFunction(call.state(), handle, call.context());
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int most = limit > 0 ? std::min(limit, function->kernel->max_threads) : function->kernel->max_threads;
  int best = 0;
  for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
    const int tried = std::min(threads, most);
    const size_t shared = shared_of != nullptr ? shared_of(tried) : dynamic_shared;
    const int blocks = BlocksOfMultiprocessor(*function->kernel, tried, shared);
    if (blocks * tried <= best) continue;
    best = blocks * tried;
    *block = tried;
    *grid = blocks * kMultiprocessors;
  }
  return best > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks, int block) {
  const Call call("cuOccupancyAvailableDynamicSMemPerBlock", kContext);
  if (call.refused()) return call.result();
  CUfunc_st* const function = FindFunction(call.state(), handle, call.context());
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks <= 0 || block <= 0) return CUDA_ERROR_INVALID_VALUE;
  const int each = kSharedBytesOfMultiprocessor / blocks - kReservedSharedBytes - function->kernel->static_shared;
  *bytes = static_cast<size_t>(std::clamp(each, 0, function->max_dynamic_shared));
  return CUDA_SUCCESS;
}

extern "C" CUresult cuFuncGetName(const char** name, CUfunction function) {
  const Call call("cuFuncGetName", kContext);
  if (call.refused()) return call.result();
  if (!call.state().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->kernel->name.c_str();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  const Call call("cuKernelGetName", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  const Call call("cuKernelGetLibrary", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *library = kernel->library;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  const Call call("cuFuncGetModule", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = std::find_if(state.modules.begin(), state.modules.end(), [&](CUmodule known) {
    return known->library == function->kernel->library && known->context == function->context;
  });
  if (found == state.modules.end()) return CUDA_ERROR_NOT_FOUND;
  *module = *found;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuFuncIsLoaded(CUfunctionLoadingState* loaded, CUfunction function) {
  const Call call("cuFuncIsLoaded", kContext);
  if (call.refused()) return call.result();
  if (!call.state().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  const bool is_lazy = function->kernel->function == nullptr && call.state().lazy && !function->loaded;
  *loaded = is_lazy ? CU_FUNCTION_LOADING_STATE_UNLOADED : CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuFuncLoad(CUfunction function) {
  const Call call("cuFuncLoad", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  if (!call.state().functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  function->loaded = true;
  if (function->kernel->function != nullptr) return CUDA_SUCCESS;
  std::shared_ptr<LoadedProgram> program;
  std::string problem;
  return ProgramOf(call.state(), function->kernel->library, function->context, &program, &problem);
}

extern "C" CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  const Call call("cuFuncSetCacheConfig", kContext);
  if (call.refused()) return call.result();
  return call.state().functions.contains(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

extern "C" CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  const Call call("cuLibraryGetKernelCount", kInitialized);
  if (call.refused()) return call.result();
  if (const CUresult wrong = CheckLibrary(call.state(), library); wrong != CUDA_SUCCESS) return wrong;
  *count = static_cast<unsigned int>(library->kernels.size());
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
