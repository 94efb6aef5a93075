// SPDX-License-Identifier: Apache-2.0
//
// Images: shared objects with host functions, and other images, whose kernels bind() has named.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/enqueue.h"
#include "driver/gpu_images.h"
#include "driver/programs.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

bool HasElfHead(const void* image) { return std::memcmp(image, ELFMAG, SELFMAG) == 0; }

// Returns the size of an ELF image, which a driver is not given either. The section table comes last in a linker's
// output.
size_t ElfBytes(const Elf64_Ehdr& header) { return header.e_shoff + size_t{header.e_shnum} * header.e_shentsize; }

const SoftwareGpuImage* OpenImage(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  const int fd = memfd_create("software_gpu_image", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  const auto bytes = static_cast<ssize_t>(ElfBytes(header));
  const bool written = write(fd, image, ElfBytes(header)) == bytes;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  // This function closes neither the library nor its descriptor, because the loader knows files by name, and launched
  // kernels may still run.
  void* handle = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (handle == nullptr) {
    close(fd);
    return nullptr;
  }
  return static_cast<const SoftwareGpuImage*>(dlsym(handle, "software_gpu_image"));
}

std::unique_ptr<CUkern_st> MakeKernel(CUlibrary library, const SoftwareGpuKernel& from) {
  auto kernel = std::unique_ptr<CUkern_st>(new CUkern_st{library, from.name, from.function});
  for (size_t i = 0; i < from.parameter_count; ++i) {
    const size_t bytes = from.parameter_bytes[i];
    const size_t alignment = std::clamp<size_t>(bytes, 1, 8);
    const size_t offset = (kernel->parameter_bytes + alignment - 1) / alignment * alignment;
    kernel->offsets.push_back(offset);
    kernel->sizes.push_back(bytes);
    kernel->parameter_bytes = offset + bytes;
  }
  kernel->max_threads = from.max_threads != 0 ? static_cast<int>(from.max_threads) : kMaxThreads;
  kernel->static_shared = static_cast<int>(from.shared_bytes);
  kernel->cluster = static_cast<int>(from.cluster);
  return kernel;
}

void AddKernel(State& state, CUlibrary library, const SoftwareGpuKernel& from) {
  auto kernel = MakeKernel(library, from);
  state.kernels.insert(kernel.get());
  library->kernels[from.name] = std::move(kernel);
}

// Stands for a kernel that was not bound: its device has no code for it.
int NoCode(const SoftwareGpuLaunch* /*launch*/, void** /*parameters*/) { return CUDA_ERROR_NO_BINARY_FOR_GPU; }

void AddGpuKernels(State& state, CUlibrary library, const void* image) {
  for (const GpuKernel& kernel : KernelsOf(image)) {
    if (state.bound.contains(kernel.name)) continue;
    const std::vector<size_t>& bytes = kernel.parameter_bytes;
    AddKernel(state, library, {kernel.name.c_str(), &NoCode, bytes.size(), bytes.data(), 0, 0});
  }
  for (const auto& [name, kernel] : state.bound) AddKernel(state, library, kernel);
  library->globals = state.bound_globals;
}

void AddProgramKernel(State& state, CUlibrary library, const ptx::Kernel& from) {
  auto kernel = std::unique_ptr<CUkern_st>(new CUkern_st{library, from.name, nullptr});
  for (const ptx::Parameter& parameter : from.parameters) {
    kernel->offsets.push_back(parameter.offset);
    kernel->sizes.push_back(parameter.bytes);
  }
  kernel->parameter_bytes = from.parameter_bytes;
  kernel->max_threads = static_cast<int>(from.max_threads);
  kernel->static_shared = static_cast<int>(from.shared_bytes);
  kernel->local_bytes = static_cast<int>(from.local_bytes);
  state.kernels.insert(kernel.get());
  library->kernels[from.name] = std::move(kernel);
}

// Adds the kernels of PTX text. Bound kernels come before those of the text, and unreadable text is no error if all
// kernels were bound.
CUresult AddProgram(State& state, CUlibrary library, std::string text, std::string* problem) {
  const std::unique_ptr<ptx::Program> program = ptx::Program::Read(text, *problem);
  for (const auto& [name, kernel] : state.bound) AddKernel(state, library, kernel);
  library->globals = state.bound_globals;
  if (program == nullptr) {
    if (!state.bound.empty()) return CUDA_SUCCESS;
    std::fprintf(stderr, "software GPU: PTX was refused: %s\n", problem->c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
  for (const ptx::Kernel& kernel : program->kernels()) {
    if (!state.bound.contains(kernel.name)) AddProgramKernel(state, library, kernel);
  }
  for (const ptx::Global& global : program->globals()) library->globals.emplace(global.name, global.bytes);
  library->ptx = std::move(text);
  return CUDA_SUCCESS;
}

// True if the text is for a newer device than this one, which ptxas refuses. The letter of sm_90a names the same
// device.
bool IsOfNewerDevice(const std::string& text, std::string* problem) {
  const size_t at = text.find(".target sm_");
  if (at == std::string::npos) return false;
  if (std::strtol(text.c_str() + at + std::strlen(".target sm_"), nullptr, 10) <= kComputeCapability) return false;
  *problem = "SM version specified by .target is higher than default SM version assumed";
  return true;
}

CUresult FillLibrary(State& state, CUlibrary library, const void* image, std::string* problem) {
  std::string text;
  if (const CUresult wrong = FindPtx(image, &text, problem); wrong != CUDA_SUCCESS) return wrong;
  if (!text.empty() && IsOfNewerDevice(text, problem)) return CUDA_ERROR_INVALID_PTX;
  if (!text.empty()) return AddProgram(state, library, std::move(text), problem);
  if (IsGpuImage(image)) {
    AddGpuKernels(state, library, image);
    return CUDA_SUCCESS;
  }
  const SoftwareGpuImage* found = HasElfHead(image) ? OpenImage(image) : nullptr;
  if (found == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  for (size_t i = 0; i < found->kernel_count; ++i) AddKernel(state, library, found->kernels[i]);
  for (size_t i = 0; i < found->global_count; ++i) library->globals[found->globals[i].name] = found->globals[i].bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MakeLibrary(State& state, const void* image, CUlibrary* library, std::string* problem) {
  *library = new CUlib_st;
  if (const CUresult wrong = FillLibrary(state, *library, image, problem); wrong != CUDA_SUCCESS) {
    DeleteLibrary(state, *library);
    *library = nullptr;
    return wrong;
  }
  state.libraries.insert(*library);
  return CUDA_SUCCESS;
}

CUresult CheckLibrary(const State& state, CUlibrary library) {
  return state.libraries.contains(library) ? library->refused : CUDA_ERROR_INVALID_HANDLE;
}

void DeleteLibrary(State& state, CUlibrary library) {
  state.libraries.erase(library);
  for (const auto& [name, kernel] : library->kernels) {
    for (const auto& [context, function] : kernel->functions) state.functions.erase(function.get());
    state.kernels.erase(kernel.get());
  }
  std::erase_if(state.modules, [&](CUmodule module) {
    if (module->library != library) return false;
    delete module;
    return true;
  });
  for (const auto& [key, address] : library->memory) state.memory.Free(address);
  delete library;
}

CUresult ProgramOf(State& state, CUlibrary library, CUcontext context, std::shared_ptr<LoadedProgram>* program,
                   std::string* problem) {
  std::shared_ptr<LoadedProgram>& loaded = library->programs[context];
  if (loaded == nullptr) {
    if (const CUresult wrong = LoadProgram(state, context, library->ptx, &loaded, problem); wrong != CUDA_SUCCESS) {
      return wrong;
    }
    for (const auto& [name, address] : loaded->variables) library->memory.insert({{context, name}, address});
  }
  *program = loaded;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option* jit_options,
                                      void** jit_values, unsigned int jit_count, CUlibraryOption*, void**,
                                      unsigned int count) {
  const Call call("cuLibraryLoadData", kInitialized | kNotInCapture);
  if (call.refused()) return call.result();
  if (image == nullptr || count > 8) return CUDA_ERROR_INVALID_VALUE;
  std::string problem;
  CUresult result = MakeLibrary(call.state(), image, library, &problem);
  WriteErrorLog(result != CUDA_SUCCESS ? problem : "", jit_count, jit_options, jit_values);
  if (result == CUDA_SUCCESS) return result;
  // Driver 580 on an H100 behaves like this, with lazy and with eager loading: the log is written, and the first use
  // returns the error.
  *library = new CUlib_st;
  (*library)->refused = result;
  call.state().libraries.insert(*library);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryUnload(CUlibrary library) {
  Call call("cuLibraryUnload", kInitialized | kNotInCapture);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.libraries.contains(library) || library->of_module) return CUDA_ERROR_INVALID_HANDLE;
  // Kernels of the library may be running. They hold what they need, but their memory must stay until they end.
  std::vector<std::shared_ptr<Queue>> queues;
  for (const auto& context : state.contexts) {
    if (context->retained == 0) continue;
    for (auto& queue : PendingQueues(state, context.get())) queues.push_back(std::move(queue));
  }
  const bool has_memory = !library->memory.empty();
  if (has_memory) {
    call.Unlock();
    for (const auto& queue : queues) queue->WaitFor(queue->last());
    call.Lock();
    if (!state.libraries.contains(library)) return CUDA_ERROR_INVALID_HANDLE;
  }
  DeleteLibrary(state, library);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const Call call("cuLibraryGetKernel", kInitialized, name);
  if (call.refused()) return call.result();
  if (const CUresult wrong = CheckLibrary(call.state(), library); wrong != CUDA_SUCCESS) return wrong;
  const auto found = library->kernels.find(name);
  if (found == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *kernel = found->second.get();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryGetGlobal(CUdeviceptr* memory, size_t* bytes, CUlibrary library, const char* name) {
  const Call call("cuLibraryGetGlobal", kContext | kNotInCapture, name);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (const CUresult wrong = CheckLibrary(state, library); wrong != CUDA_SUCCESS) return wrong;
  const auto global = library->globals.find(name);
  if (global == library->globals.end()) return CUDA_ERROR_NOT_FOUND;
  const CUdeviceptr address = GlobalMemory(state, library, call.context(), name);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (memory != nullptr) *memory = address;
  if (bytes != nullptr) *bytes = global->second;
  return CUDA_SUCCESS;
}

CUdeviceptr GlobalMemory(State& state, CUlibrary library, CUcontext context, const std::string& name) {
  const auto global = library->globals.find(name);
  if (global == library->globals.end()) return 0;
  if (!library->ptx.empty()) {
    std::shared_ptr<LoadedProgram> program;
    std::string problem;
    if (ProgramOf(state, library, context, &program, &problem) != CUDA_SUCCESS) return 0;
  }
  CUdeviceptr& address = library->memory[{context, name}];
  if (address == 0) {
    address = state.memory.Allocate(context, global->second, /*counted=*/false);
    if (address != 0) std::memset(state.memory.Find(address, global->second).memory, 0, global->second);
  }
  return address;
}

}  // namespace callout::software_gpu
