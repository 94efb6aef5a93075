// SPDX-License-Identifier: Apache-2.0
//
// What the library exports, and which functions it says that there are.
#include <cstring>

#include "testing/fake_cuda/functions.h"
#include "testing/fake_cuda/state.h"

#define CALLOUT_FAKE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace callout::fake_cuda {
namespace {

struct Symbol {
  const char* name;
  int version;
  void* function;
};

const Symbol kSymbols[] = {
#define CALLOUT_FAKE_CUDA_SYMBOL(name, version, parameters) {"cu" #name, version, reinterpret_cast<void*>(&name)},
    CALLOUT_CUDA_FUNCTIONS(CALLOUT_FAKE_CUDA_SYMBOL) CALLOUT_FAKE_CUDA_FOREIGN_FUNCTIONS(CALLOUT_FAKE_CUDA_SYMBOL)
#undef CALLOUT_FAKE_CUDA_SYMBOL
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
}  // namespace callout::fake_cuda

CALLOUT_FAKE_CUDA_EXPORT int cuInit(unsigned int flags) { return callout::fake_cuda::Init(flags); }
CALLOUT_FAKE_CUDA_EXPORT int cuDriverGetVersion(int* version) { return callout::fake_cuda::DriverGetVersion(version); }
CALLOUT_FAKE_CUDA_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t /*flags*/,
                                                 int* found) {
  int ignored = 0;
  return callout::fake_cuda::Find(symbol, function, version, found != nullptr ? found : &ignored);
}
/// NVRTC asks for a driver's private tables wherever one is loaded, and calls what it does not find.
CALLOUT_FAKE_CUDA_EXPORT int cuGetExportTable(const void** /*table*/, const void* /*id*/) {
  return callout::internal::cuda::CUDA_ERROR_NOT_FOUND;
}
