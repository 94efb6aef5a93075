// SPDX-License-Identifier: Apache-2.0
//
// libnvrtc: gets PTX from NVIDIA's library, which CALLOUT_SOFTWARE_GPU_NVRTC names, and returns it as the cubin.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "libraries/log.h"

namespace {

constexpr int kInternalError = 11;

void* Find(const char* name) {
  static void* const library = [] {
    const char* path = std::getenv("CALLOUT_SOFTWARE_GPU_NVRTC");
    void* found = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (found == nullptr) {
      callout::software_gpu::Refuse("NVRTC without CALLOUT_SOFTWARE_GPU_NVRTC=.../libnvrtc.so", 0);
    }
    return found;
  }();
  return library != nullptr ? dlsym(library, name) : nullptr;
}

template <typename... Arguments>
int Ask(const char* name, Arguments... arguments) {
  void* found = Find(name);
  return found != nullptr ? reinterpret_cast<int (*)(Arguments...)>(found)(arguments...) : kInternalError;
}

// Replaces a real architecture, for which NVRTC would make machine code, by the virtual one of the same number, for
// which it makes PTX.
std::string Virtual(std::string option) {
  const size_t at = option.find("=sm_");
  return at == std::string::npos ? option : option.replace(at, 4, "=compute_");
}

}  // namespace

#define CALLOUT_COMPILER(name, parameters, ...) \
  CALLOUT_LIBRARY_EXPORT int name parameters { return Ask(__VA_ARGS__); }

CALLOUT_COMPILER(nvrtcVersion, (int* major, int* minor), "nvrtcVersion", major, minor)
CALLOUT_COMPILER(nvrtcGetNumSupportedArchs, (int* count), "nvrtcGetNumSupportedArchs", count)
CALLOUT_COMPILER(nvrtcGetSupportedArchs, (int* list), "nvrtcGetSupportedArchs", list)
CALLOUT_COMPILER(nvrtcCreateProgram,
                 (void** program, const char* source, const char* name, int count, const char* const* headers,
                  const char* const* names),
                 "nvrtcCreateProgram", program, source, name, count, headers, names)
CALLOUT_COMPILER(nvrtcDestroyProgram, (void** program), "nvrtcDestroyProgram", program)
CALLOUT_COMPILER(nvrtcAddNameExpression, (void* program, const char* name), "nvrtcAddNameExpression", program, name)
CALLOUT_COMPILER(nvrtcGetLoweredName, (void* program, const char* name, const char** lowered), "nvrtcGetLoweredName",
                 program, name, lowered)
CALLOUT_COMPILER(nvrtcGetProgramLogSize, (void* program, size_t* bytes), "nvrtcGetProgramLogSize", program, bytes)
CALLOUT_COMPILER(nvrtcGetProgramLog, (void* program, char* to), "nvrtcGetProgramLog", program, to)
CALLOUT_COMPILER(nvrtcGetPTXSize, (void* program, size_t* bytes), "nvrtcGetPTXSize", program, bytes)
CALLOUT_COMPILER(nvrtcGetPTX, (void* program, char* to), "nvrtcGetPTX", program, to)
CALLOUT_COMPILER(nvrtcGetCUBINSize, (void* program, size_t* bytes), "nvrtcGetPTXSize", program, bytes)
CALLOUT_COMPILER(nvrtcGetCUBIN, (void* program, char* to), "nvrtcGetPTX", program, to)

CALLOUT_LIBRARY_EXPORT int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  std::vector<std::string> kept;
  for (int i = 0; i < count; ++i) kept.push_back(Virtual(options[i]));
  std::vector<const char*> pointers;
  for (const std::string& option : kept) pointers.push_back(option.c_str());
  return Ask("nvrtcCompileProgram", program, count, pointers.data());
}

CALLOUT_LIBRARY_EXPORT const char* nvrtcGetErrorString(int status) {
  void* found = Find("nvrtcGetErrorString");
  return found != nullptr ? reinterpret_cast<const char* (*)(int)>(found)(status) : "NVIDIA's NVRTC was not found";
}
