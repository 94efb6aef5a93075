// SPDX-License-Identifier: Apache-2.0
//
// libcudart: exports the driver under the runtime's names, as far as XLA's plugin and JAX's own handlers use it.
#include <cstddef>
#include <cstdint>

#include "libraries/client.h"
#include "libraries/log.h"

namespace callout::software_gpu {
namespace {

// Choosing a device makes its primary context current.
constexpr int kInvalidDevice = 101;
thread_local int last_error = 0;

int Keep(int result) {
  if (result != 0) last_error = result;
  return result;
}

int CurrentDevice(int* device) {
  if (CallDriver("cuCtxGetDevice", device) != 0) *device = 0;
  return 0;
}

int ChooseDevice(int device) {
  internal::cuda::CUcontext context = nullptr;
  int count = 0;
  if (const int result = CallDriver("cuDeviceGetCount", &count); result != 0) return result;
  if (device < 0 || device >= count) return kInvalidDevice;
  if (const int result = CallDriver("cuDevicePrimaryCtxRetain", &context, device); result != 0) return result;
  return CallDriver("cuCtxSetCurrent", context);
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace
}  // namespace callout::software_gpu

using namespace callout::software_gpu;  // NOLINT(google-build-using-namespace): for the C functions below

#define CALLOUT_RUNTIME(name, parameters, ...) \
  CALLOUT_LIBRARY_EXPORT int name parameters { return Keep(__VA_ARGS__); }

CALLOUT_LIBRARY_EXPORT int cudaRuntimeGetVersion(int* version) {
  *version = CALLOUT_CUDA_MAJOR == 12 ? 12090 : 13000;
  return 0;
}
CALLOUT_RUNTIME(cudaDriverGetVersion, (int* version), CallDriver("cuDriverGetVersion", version))
CALLOUT_RUNTIME(cudaGetDeviceCount, (int* count), CallDriver("cuDeviceGetCount", count))
CALLOUT_RUNTIME(cudaGetDevice, (int* device), CurrentDevice(device))
CALLOUT_RUNTIME(cudaSetDevice, (int device), ChooseDevice(device))
CALLOUT_RUNTIME(cudaDeviceGetAttribute, (int* value, int attribute, int device),
                CallDriver("cuDeviceGetAttribute", value, attribute, device))
CALLOUT_RUNTIME(cudaDeviceSynchronize, (), CallDriver("cuCtxSynchronize"))
CALLOUT_LIBRARY_EXPORT int cudaPeekAtLastError() { return last_error; }
CALLOUT_LIBRARY_EXPORT int cudaGetLastError() { return std::exchange(last_error, 0); }
CALLOUT_LIBRARY_EXPORT const char* cudaGetErrorString(int result) {
  const char* text = nullptr;
  return CallDriver("cuGetErrorString", result, &text) == 0 && text != nullptr ? text : "unknown error";
}
CALLOUT_LIBRARY_EXPORT const char* cudaGetErrorName(int result) {
  const char* text = nullptr;
  return CallDriver("cuGetErrorName", result, &text) == 0 && text != nullptr ? text : "cudaErrorUnknown";
}

CALLOUT_RUNTIME(cudaMalloc, (uint64_t* memory, size_t bytes), CallDriver("cuMemAlloc", memory, bytes))
CALLOUT_RUNTIME(cudaFree, (void* memory), memory == nullptr ? 0 : CallDriver("cuMemFree", Address(memory)))
CALLOUT_RUNTIME(cudaHostAlloc, (void** memory, size_t bytes, unsigned int flags),
                CallDriver("cuMemHostAlloc", memory, bytes, flags))
CALLOUT_RUNTIME(cudaMallocHost, (void** memory, size_t bytes), CallDriver("cuMemHostAlloc", memory, bytes, 0U))
CALLOUT_RUNTIME(cudaFreeHost, (void* memory), CallDriver("cuMemFreeHost", memory))
CALLOUT_RUNTIME(cudaMemcpy, (void* to, const void* from, size_t bytes, int /*kind*/),
                CallDriver("cuMemcpy", Address(to), Address(from), bytes))
CALLOUT_RUNTIME(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, int /*kind*/, void* stream),
                CallDriver("cuMemcpyAsync", Address(to), Address(from), bytes, stream))
CALLOUT_RUNTIME(cudaMemset, (void* to, int value, size_t bytes),
                CallDriver("cuMemsetD8", Address(to), static_cast<unsigned char>(value), bytes))
CALLOUT_RUNTIME(cudaMemsetAsync, (void* to, int value, size_t bytes, void* stream),
                CallDriver("cuMemsetD8Async", Address(to), static_cast<unsigned char>(value), bytes, stream))

CALLOUT_RUNTIME(cudaStreamCreate, (void** stream), CallDriver("cuStreamCreate", stream, 0U))
CALLOUT_RUNTIME(cudaStreamCreateWithFlags, (void** stream, unsigned int flags),
                CallDriver("cuStreamCreate", stream, flags))
CALLOUT_RUNTIME(cudaStreamDestroy, (void* stream), CallDriver("cuStreamDestroy", stream))
CALLOUT_RUNTIME(cudaStreamSynchronize, (void* stream), CallDriver("cuStreamSynchronize", stream))
CALLOUT_RUNTIME(cudaStreamWaitEvent, (void* stream, void* event, unsigned int flags),
                CallDriver("cuStreamWaitEvent", stream, event, flags))
CALLOUT_RUNTIME(cudaStreamIsCapturing, (void* stream, int* status), CallDriver("cuStreamIsCapturing", stream, status))
CALLOUT_RUNTIME(cudaEventCreate, (void** event), CallDriver("cuEventCreate", event, 0U))
CALLOUT_RUNTIME(cudaEventCreateWithFlags, (void** event, unsigned int flags), CallDriver("cuEventCreate", event, flags))
CALLOUT_RUNTIME(cudaEventDestroy, (void* event), CallDriver("cuEventDestroy", event))
CALLOUT_RUNTIME(cudaEventRecord, (void* event, void* stream), CallDriver("cuEventRecord", event, stream))
CALLOUT_RUNTIME(cudaEventSynchronize, (void* event), CallDriver("cuEventSynchronize", event))
CALLOUT_RUNTIME(cudaLaunchHostFunc, (void* stream, void (*function)(void*), void* data),
                CallDriver("cuLaunchHostFunc", stream, function, data))
// "Not ready" is a result, and not an error that stays.
CALLOUT_LIBRARY_EXPORT int cudaStreamQuery(void* stream) { return CallDriver("cuStreamQuery", stream); }
CALLOUT_LIBRARY_EXPORT int cudaEventQuery(void* event) { return CallDriver("cuEventQuery", event); }

// Kernels compiled into the plugin are machine code, which cannot run here. They are registered when the plugin is
// loaded, and refused when one is used.
CALLOUT_LIBRARY_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
CALLOUT_LIBRARY_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
CALLOUT_LIBRARY_EXPORT void __cudaUnregisterFatBinary(void**) {}
CALLOUT_LIBRARY_EXPORT char __cudaInitModule(void**) { return 1; }
CALLOUT_LIBRARY_EXPORT void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*,
                                                   void*, int*) {}
CALLOUT_LIBRARY_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
CALLOUT_RUNTIME(cudaLaunchKernel, (const void*), Refuse("cudaLaunchKernel: a kernel that was compiled ahead", 801))
CALLOUT_RUNTIME(cudaGetFuncBySymbol, (void**, const void*),
                Refuse("cudaGetFuncBySymbol: a kernel that was compiled ahead", 801))
