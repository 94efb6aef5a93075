// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver of this machine, opened with dlopen: CUDA is needed neither to build nor to link. A machine without a
// driver is a normal state that a Status describes.
//
// The driver's functions are rows of X(name without "cu", CUDA version of this signature, parameters). The version
// selects one of the variants that a driver has of a function, like the suffix _v2 of a symbol does.
// driver_types_test.cc compares every row with cuda.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/dynamic_library.h"
#include "cuda/driver/driver_types.h"

// A driver must have all of these functions.
#define CALLOUT_CUDA_REQUIRED_FUNCTIONS(X)                                                                        \
  X(Init, 2000, (unsigned int flags))                                                                             \
  X(DriverGetVersion, 2020, (int* version))                                                                       \
  X(DeviceGetCount, 2000, (int* count))                                                                           \
  X(DeviceGet, 2000, (CUdevice * device, int ordinal))                                                            \
  X(DeviceGetName, 2000, (char* name, int length, CUdevice device))                                               \
  X(DeviceGetAttribute, 2000, (int* value, int attribute, CUdevice device))                                       \
  X(DeviceGetPCIBusId, 4010, (char* id, int length, CUdevice device))                                             \
  X(DeviceTotalMem, 3020, (size_t* bytes, CUdevice device))                                                       \
  X(DevicePrimaryCtxRetain, 7000, (CUcontext * context, CUdevice device))                                         \
  X(DevicePrimaryCtxRelease, 11000, (CUdevice device))                                                            \
  X(CtxGetCurrent, 4000, (CUcontext * context))                                                                   \
  X(CtxPushCurrent, 4000, (CUcontext context))                                                                    \
  X(CtxPopCurrent, 4000, (CUcontext * context))                                                                   \
  X(CtxSynchronize, 2000, ())                                                                                     \
  X(StreamCreate, 2000, (CUstream * stream, unsigned int flags))                                                  \
  X(StreamDestroy, 4000, (CUstream stream))                                                                       \
  X(StreamSynchronize, 2000, (CUstream stream))                                                                   \
  X(StreamQuery, 2000, (CUstream stream))                                                                         \
  X(StreamWaitEvent, 3020, (CUstream stream, CUevent event, unsigned int flags))                                  \
  X(StreamGetCaptureInfo, 11030,                                                                                  \
    (CUstream stream, int* status, uint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,                \
     size_t* dependency_count))                                                                                   \
  X(LaunchHostFunc, 10000, (CUstream stream, CUhostFn function, void* user_data))                                 \
  X(EventCreate, 2000, (CUevent * event, unsigned int flags))                                                     \
  X(EventDestroy, 4000, (CUevent event))                                                                          \
  X(EventRecord, 2000, (CUevent event, CUstream stream))                                                          \
  X(EventQuery, 2000, (CUevent event))                                                                            \
  X(EventSynchronize, 2000, (CUevent event))                                                                      \
  X(EventElapsedTime, 2000, (float* milliseconds, CUevent start, CUevent end))                                    \
  X(MemAlloc, 3020, (CUdeviceptr * memory, size_t bytes))                                                         \
  X(MemFree, 3020, (CUdeviceptr memory))                                                                          \
  X(MemGetInfo, 3020, (size_t* free, size_t* total))                                                              \
  X(MemHostAlloc, 2020, (void** memory, size_t bytes, unsigned int flags))                                        \
  X(MemFreeHost, 2000, (void* memory))                                                                            \
  X(MemHostGetDevicePointer, 3020, (CUdeviceptr * device, void* host, unsigned int flags))                        \
  X(MemcpyHtoDAsync, 3020, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))                     \
  X(MemcpyDtoHAsync, 3020, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))                           \
  X(MemcpyDtoDAsync, 3020, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                     \
  X(MemsetD8Async, 3020, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                    \
  X(MemsetD32Async, 3020, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream))                    \
  X(LibraryLoadData, 12000,                                                                                       \
    (CUlibrary * library, const void* image, int* jit_options, void** jit_values, unsigned int jit_count,         \
     int* options, void** values, unsigned int count))                                                            \
  X(LibraryUnload, 12000, (CUlibrary library))                                                                    \
  X(LibraryGetKernel, 12000, (CUkernel * kernel, CUlibrary library, const char* name))                            \
  X(LibraryGetGlobal, 12000, (CUdeviceptr * memory, size_t* bytes, CUlibrary library, const char* name))          \
  X(KernelGetFunction, 12000, (CUfunction * function, CUkernel kernel))                                           \
  X(KernelGetAttribute, 12000, (int* value, int attribute, CUkernel kernel, CUdevice device))                     \
  X(KernelSetAttribute, 12000, (int attribute, int value, CUkernel kernel, CUdevice device))                      \
  X(FuncGetAttribute, 2020, (int* value, int attribute, CUfunction function))                                     \
  X(FuncSetAttribute, 9000, (CUfunction function, int attribute, int value))                                      \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050,                                                              \
    (int* blocks, CUfunction function, int block_threads, size_t shared_bytes))                                   \
  X(LaunchKernel, 4000,                                                                                           \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,    \
     unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void** parameters,   \
     void** extra))                                                                                               \
  X(LaunchKernelEx, 11060, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))  \
  X(TensorMapEncodeTiled, 12000,                                                                                  \
    (CUtensorMap * map, int type, uint32_t rank, void* address, const uint64_t* dims, const uint64_t* strides,    \
     const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int promotion, int fill)) \
  X(LaunchCooperativeKernel, 9000,                                                                                \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,    \
     unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void** parameters))  \
  X(StreamBeginCapture, 10010, (CUstream stream, int mode))                                                       \
  X(StreamEndCapture, 10000, (CUstream stream, CUgraph * graph))                                                  \
  X(ThreadExchangeStreamCaptureMode, 10010, (int* mode))                                                          \
  X(GraphInstantiateWithFlags, 11040, (CUgraphExec * executable, CUgraph graph, unsigned long long flags))        \
  X(GraphLaunch, 10000, (CUgraphExec executable, CUstream stream))                                                \
  X(GraphDestroy, 10000, (CUgraph graph))                                                                         \
  X(GraphExecDestroy, 10000, (CUgraphExec executable))                                                            \
  X(GraphExecUpdate, 12000, (CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo * result))        \
  X(GetErrorName, 6000, (CUresult result, const char** name))                                                     \
  X(GetErrorString, 6000, (CUresult result, const char** text))

// These functions are null if the driver lacks them: they are newer than CUDA 12.0, or not on every device.
#define CALLOUT_CUDA_OPTIONAL_FUNCTIONS(X)                                                            \
  X(StreamWriteValue32, 11070, (CUstream stream, CUdeviceptr at, uint32_t value, unsigned int flags)) \
  X(FuncGetParamInfo, 12040, (CUfunction function, size_t index, size_t* offset, size_t* bytes))      \
  X(FuncLoad, 12040, (CUfunction function))                                                           \
  X(KernelGetParamInfo, 12040, (CUkernel kernel, size_t index, size_t* offset, size_t* bytes))

#define CALLOUT_CUDA_FUNCTIONS(X)    \
  CALLOUT_CUDA_REQUIRED_FUNCTIONS(X) \
  CALLOUT_CUDA_OPTIONAL_FUNCTIONS(X)

namespace callout::internal::cuda {

struct DriverFunctions {
#define CALLOUT_CUDA_MEMBER(name, version, parameters) CUresult(*name) parameters = nullptr;
  CALLOUT_CUDA_FUNCTIONS(CALLOUT_CUDA_MEMBER)
#undef CALLOUT_CUDA_MEMBER
};

/// The call that was attempted, for errors: "cuLaunchKernel of 'scale' on device 0".
struct Attempt {
  const char* function;           ///< CUDA's name of the function.
  std::string_view subject = {};  ///< The object of the call; may be empty. Borrowed: valid until the call returns.
  int device = -1;                ///< The device's ordinal; -1: none.
};

/// The functions of one driver library. Thread-safe. GIL not needed.
class Driver : public DriverFunctions {
 public:
  /// Returns the driver of the process, initialized. The first call opens it; if that fails, every later call returns
  /// the same error.
  CALLOUT_EXPORT static Result<const Driver*> Get();

  /// Opens a driver library by a path for dlopen, once in the process for each path. It is never closed. Not
  /// initialized: before Initialize(), only its version may be read.
  CALLOUT_EXPORT static Result<const Driver*> Open(const std::string& path);

  /// Returns the environment's CALLOUT_CUDA_DRIVER, or libcuda.so.1.
  CALLOUT_EXPORT static std::string DefaultPath();

  /// Initializes the driver; does nothing the second time.
  CALLOUT_EXPORT Status Initialize() const;

  /// Returns Ok, or an error with CUDA's name and number of `result`, the attempted call, and the device.
  CALLOUT_EXPORT Status Check(CUresult result, const Attempt& attempt) const;

  const std::string& path() const { return library_.path(); }
  /// In CUDA's notation: 13000 is 13.0.
  int version() const { return version_; }

 private:
  explicit Driver(DynamicLibrary library) : library_(std::move(library)) {}
  static Result<const Driver*> Load(const std::string& path);
  Status Resolve();

  DynamicLibrary library_;
  int version_ = 0;
};

}  // namespace callout::internal::cuda
