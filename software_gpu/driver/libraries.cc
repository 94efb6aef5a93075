// SPDX-License-Identifier: Apache-2.0
//
// Images: shared objects with host functions, or any other image, whose kernels bind() has named.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "driver/gpu_images.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

bool HasElfHead(const void* image) { return std::memcmp(image, ELFMAG, SELFMAG) == 0; }

// A driver is given no size either. The section table is what a linker writes last.
size_t ElfBytes(const Elf64_Ehdr& header) { return header.e_shoff + size_t{header.e_shnum} * header.e_shentsize; }

const SoftwareGpuImage* OpenImage(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  const int fd = memfd_create("software_gpu_image", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  const auto bytes = static_cast<ssize_t>(ElfBytes(header));
  const bool written = write(fd, image, ElfBytes(header)) == bytes;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  // Never closed, nor its descriptor: the loader knows files by name, and what was launched may still run.
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
  return kernel;
}

void AddKernel(State& state, CUlibrary library, const SoftwareGpuKernel& from) {
  auto kernel = MakeKernel(library, from);
  state.kernels.insert(kernel.get());
  library->kernels[from.name] = std::move(kernel);
}

// What a kernel does that was not bound: its device has no code for it.
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

}  // namespace

extern "C" CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**,
                                      unsigned int jit_count, CUlibraryOption*, void**, unsigned int count) {
  const Call call("cuLibraryLoadData", kInitialized | kNotInCapture);
  if (call.refused()) return call.result();
  if (image == nullptr || jit_count != 0 || count != 0) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  auto loaded = std::make_unique<CUlib_st>();
  if (IsGpuImage(image)) {
    AddGpuKernels(state, loaded.get(), image);
  } else {
    const SoftwareGpuImage* found = HasElfHead(image) ? OpenImage(image) : nullptr;
    if (found == nullptr) return CUDA_ERROR_INVALID_IMAGE;
    for (size_t i = 0; i < found->kernel_count; ++i) AddKernel(state, loaded.get(), found->kernels[i]);
    for (size_t i = 0; i < found->global_count; ++i) loaded->globals[found->globals[i].name] = found->globals[i].bytes;
  }
  *library = loaded.release();
  state.libraries.insert(*library);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryUnload(CUlibrary library) {
  const Call call("cuLibraryUnload", kInitialized | kNotInCapture);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (state.libraries.erase(library) == 0) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, kernel] : library->kernels) {
    for (const auto& [context, function] : kernel->functions) state.functions.erase(function.get());
    state.kernels.erase(kernel.get());
  }
  for (const auto& [key, address] : library->memory) state.memory.Free(address);
  delete library;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const Call call("cuLibraryGetKernel", kInitialized, name);
  if (call.refused()) return call.result();
  if (!call.state().libraries.contains(library)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = library->kernels.find(name);
  if (found == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *kernel = found->second.get();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuLibraryGetGlobal(CUdeviceptr* memory, size_t* bytes, CUlibrary library, const char* name) {
  const Call call("cuLibraryGetGlobal", kContext | kNotInCapture, name);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.libraries.contains(library)) return CUDA_ERROR_INVALID_HANDLE;
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
  CUdeviceptr& address = library->memory[{context, name}];
  if (address == 0) {
    address = state.memory.Allocate(context, global->second, /*counted=*/false);
    if (address != 0) std::memset(state.memory.Find(address, global->second).memory, 0, global->second);
  }
  return address;
}

}  // namespace callout::software_gpu
