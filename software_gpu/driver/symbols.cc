// SPDX-License-Identifier: Apache-2.0
//
// cuGetProcAddress: it returns the function with the newest signature that is not newer than the requested version.
// generate_symbols.py reads the signatures from cudaTypedefs.h.
#include <cudaTypedefs.h>

#include <cstring>
#include <type_traits>

#include "driver/state.h"

namespace callout::software_gpu {
namespace {

struct Symbol {
  const char* name;
  int version;
  void* function;
  void* per_thread;
};

#define Y(name, version, symbol, per_thread) \
  {#name, version, reinterpret_cast<void*>(&::symbol), reinterpret_cast<void*>(&::per_thread)},
#define X Y
const Symbol kSymbols[] = {
#include "symbol_table.inc"
};
#undef X
#undef Y
#define Y(name, version, symbol, per_thread)
#define X(name, version, symbol, per_thread) \
  static_assert(std::is_same_v<decltype(&::symbol), PFN_##name##_v##version>);
#include "symbol_table.inc"
#undef X
#undef Y

struct Answer {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

Answer FindSymbol(const State& state, const char* name, int version, cuuint64_t flags) {
  Answer answer;
  if (state.hidden.contains(name)) return answer;
  for (const Symbol& symbol : kSymbols) {
    if (std::strcmp(symbol.name, name) != 0 || symbol.version > state.version) continue;
    if (answer.function == nullptr) answer.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (symbol.version > version) continue;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    answer = {per_thread ? symbol.per_thread : symbol.function, CU_GET_PROC_ADDRESS_SUCCESS};
  }
  return answer;
}

constexpr cuuint64_t kFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

}  // namespace

extern "C" CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const Answer answer = FindSymbol(TheState(), symbol, version, flags);
  *function = answer.function;
  if (status != nullptr) *status = answer.status;
  return answer.function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

extern "C" CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

/// NVRTC asks for a driver's private tables wherever a driver is loaded, and crashes on a missing function. So all
/// tables are refused.
extern "C" CUresult cuGetExportTable(const void** table, const CUuuid* /*id*/) {
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace callout::software_gpu
