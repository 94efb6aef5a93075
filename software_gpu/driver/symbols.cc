// SPDX-License-Identifier: Apache-2.0
//
// What the library exports, and which functions it says that there are.
#include <cstring>

#include "driver/functions.h"
#include "driver/state.h"

#define CALLOUT_SOFTWARE_GPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace callout::software_gpu {
namespace {

struct Symbol {
  const char* name;
  int version;
  void* function;
};

const Symbol kSymbols[] = {
#define CALLOUT_SOFTWARE_GPU_SYMBOL(name, version, parameters) {"cu" #name, version, reinterpret_cast<void*>(&name)},
    CALLOUT_CUDA_FUNCTIONS(CALLOUT_SOFTWARE_GPU_SYMBOL)
        CALLOUT_SOFTWARE_GPU_FOREIGN_FUNCTIONS(CALLOUT_SOFTWARE_GPU_SYMBOL)
#undef CALLOUT_SOFTWARE_GPU_SYMBOL
};

CUresult Find(const char* name, void** function, int version, int* found) {
  const State& state = TheState();
  *function = nullptr;
  *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (state.hidden.contains(name)) return CUDA_ERROR_NOT_FOUND;
  for (const Symbol& symbol : kSymbols) {
    if (std::strcmp(symbol.name, name) != 0) continue;
    *found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (version < symbol.version || symbol.version > state.version) return CUDA_ERROR_NOT_FOUND;
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
    *function = symbol.function;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace
}  // namespace callout::software_gpu

CALLOUT_SOFTWARE_GPU_EXPORT int cuInit(unsigned int flags) { return callout::software_gpu::Init(flags); }
CALLOUT_SOFTWARE_GPU_EXPORT int cuDriverGetVersion(int* version) {
  return callout::software_gpu::DriverGetVersion(version);
}
CALLOUT_SOFTWARE_GPU_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                                    uint64_t /*flags*/, int* found) {
  int ignored = 0;
  return callout::software_gpu::Find(symbol, function, version, found != nullptr ? found : &ignored);
}
/// NVRTC asks for a driver's private tables wherever one is loaded, and calls what it does not find.
CALLOUT_SOFTWARE_GPU_EXPORT int cuGetExportTable(const void** /*table*/, const void* /*id*/) {
  return callout::internal::cuda::CUDA_ERROR_NOT_FOUND;
}
