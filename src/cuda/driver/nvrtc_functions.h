// SPDX-License-Identifier: Apache-2.0
//
// What is used of NVRTC's C interface, declared here so that no header of CUDA's is needed: X(name without "nvrtc",
// parameters). nvrtc_functions_test.cc compares every line with nvrtc.h where there is one.
#pragma once

#include <cstddef>

// A library without one of these is refused.
#define CALLOUT_NVRTC_FUNCTIONS(X)                                                                  \
  X(Version, (int* major, int* minor))                                                              \
  X(GetNumSupportedArchs, (int* count))                                                             \
  X(GetSupportedArchs, (int* architectures))                                                        \
  X(CreateProgram, (nvrtcProgram * program, const char* source, const char* name, int header_count, \
                    const char* const* headers, const char* const* header_names))                   \
  X(DestroyProgram, (nvrtcProgram * program))                                                       \
  X(CompileProgram, (nvrtcProgram program, int option_count, const char* const* options))           \
  X(GetPTXSize, (nvrtcProgram program, size_t* bytes))                                              \
  X(GetPTX, (nvrtcProgram program, char* ptx))                                                      \
  X(GetCUBINSize, (nvrtcProgram program, size_t* bytes))                                            \
  X(GetCUBIN, (nvrtcProgram program, char* cubin))                                                  \
  X(GetProgramLogSize, (nvrtcProgram program, size_t* bytes))                                       \
  X(GetProgramLog, (nvrtcProgram program, char* log))                                               \
  X(AddNameExpression, (nvrtcProgram program, const char* expression))                              \
  X(GetLoweredName, (nvrtcProgram program, const char* expression, const char** symbol))

namespace callout::internal::cuda {

using nvrtcResult = int;
using nvrtcProgram = struct NvrtcProgram*;

enum : nvrtcResult {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_OUT_OF_MEMORY = 1,
  NVRTC_ERROR_INVALID_INPUT = 3,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6,
  NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
};

struct NvrtcFunctions {
#define CALLOUT_NVRTC_DECLARE(name, parameters) nvrtcResult(*name) parameters = nullptr;
  CALLOUT_NVRTC_FUNCTIONS(CALLOUT_NVRTC_DECLARE)
#undef CALLOUT_NVRTC_DECLARE
  const char* (*GetErrorString)(nvrtcResult result) = nullptr;
};

}  // namespace callout::internal::cuda
