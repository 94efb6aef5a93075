// SPDX-License-Identifier: Apache-2.0
//
// Modules (Driver API, Module Management), which are libraries that belong to one context, and the linker. The linker's
// cubin is the text of PTX, as is the assembler's in software_gpu/bin.
#include <cstring>

#include "driver/enqueue.h"
#include "driver/programs.h"
#include "driver/state.h"

struct CUlinkState_st {
  std::string text;
};

namespace callout::software_gpu {
namespace {

CUresult LoadModule(const Call& call, CUmodule* module, const void* image, std::string* problem) {
  if (call.refused()) return call.result();
  if (image == nullptr || module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  CUlibrary library = nullptr;
  if (const CUresult wrong = MakeLibrary(state, image, &library, problem); wrong != CUDA_SUCCESS) return wrong;
  library->of_module = true;
  if (!library->ptx.empty()) {
    std::shared_ptr<LoadedProgram> program;
    const CUresult wrong = ProgramOf(state, library, call.context(), &program, problem);
    if (wrong != CUDA_SUCCESS) {
      DeleteLibrary(state, library);
      return wrong;
    }
  }
  *module = new CUmod_st{library, call.context()};
  state.modules.insert(*module);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  std::string problem;
  return LoadModule(Call("cuModuleLoadData", kContext | kNotInCapture), module, image, &problem);
}

extern "C" CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count, CUjit_option* options,
                                       void** values) {
  std::string problem;
  const CUresult result = LoadModule(Call("cuModuleLoadDataEx", kContext | kNotInCapture), module, image, &problem);
  WriteErrorLog(result != CUDA_SUCCESS ? problem : "", count, options, values);
  return result;
}

extern "C" CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  std::string problem;
  return LoadModule(Call("cuModuleLoadFatBinary", kContext | kNotInCapture), module, image, &problem);
}

extern "C" CUresult cuModuleUnload(CUmodule module) {
  Call call("cuModuleUnload", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.modules.contains(module) || !module->library->of_module) return CUDA_ERROR_INVALID_HANDLE;
  // The module's kernels may be running.
  const auto queues = PendingQueues(state, module->context);
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  call.Lock();
  if (!state.modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  DeleteLibrary(state, module->library);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  const Call call("cuModuleGetLoadingMode", kInitialized);
  if (!call.refused()) *mode = call.state().lazy ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
  return call.result();
}

extern "C" CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const Call call("cuModuleGetFunction", kContext, name);
  if (call.refused()) return call.result();
  if (!call.state().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = module->library->kernels.find(name);
  if (found == module->library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *function = FunctionOf(call.state(), found->second.get(), module->context);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuModuleGetGlobal_v2(CUdeviceptr* memory, size_t* bytes, CUmodule module, const char* name) {
  const Call call("cuModuleGetGlobal", kContext, name);
  if (call.refused()) return call.result();
  if (!call.state().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  const auto global = module->library->globals.find(name);
  if (global == module->library->globals.end()) return CUDA_ERROR_NOT_FOUND;
  const CUdeviceptr address = GlobalMemory(call.state(), module->library, module->context, name);
  if (memory != nullptr) *memory = address;
  if (bytes != nullptr) *bytes = global->second;
  return address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

extern "C" CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  const Call call("cuModuleGetFunctionCount", kContext);
  if (call.refused()) return call.result();
  if (!call.state().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned int>(module->library->kernels.size());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  const Call call("cuLibraryGetModule", kContext | kNotInCapture);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (const CUresult wrong = CheckLibrary(state, library); wrong != CUDA_SUCCESS) return wrong;
  for (CUmodule known : state.modules) {
    if (known->library != library || known->context != call.context()) continue;
    *module = known;
    return CUDA_SUCCESS;
  }
  *module = new CUmod_st{library, call.context()};
  state.modules.insert(*module);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLinkCreate_v2(unsigned int, CUjit_option*, void**, CUlinkState* link) {
  const Call call("cuLinkCreate", kContext);
  if (!call.refused()) *link = new CUlinkState_st;
  return call.result();
}

extern "C" CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void* data, size_t bytes, const char*,
                                     unsigned int, CUjit_option*, void**) {
  const Call call("cuLinkAddData", kContext);
  if (call.refused()) return call.result();
  if (link == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool text = bytes > 0 && std::memchr("./\n\r\t ", *static_cast<const char*>(data), 6) != nullptr;
  if (!text || (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_CUBIN)) {
    return call.state().Refuse("linking what is not PTX");
  }
  if (!link->text.empty()) return call.state().Refuse("linking several modules");
  link->text.assign(static_cast<const char*>(data), strnlen(static_cast<const char*>(data), bytes));
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLinkComplete(CUlinkState link, void** image, size_t* bytes) {
  const Call call("cuLinkComplete", kContext);
  if (call.refused()) return call.result();
  if (link == nullptr || link->text.empty()) return CUDA_ERROR_INVALID_VALUE;
  *image = link->text.data();
  if (bytes != nullptr) *bytes = link->text.size() + 1;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLinkDestroy(CUlinkState link) {
  const Call call("cuLinkDestroy", kContext);
  if (call.refused()) return call.result();
  delete link;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
