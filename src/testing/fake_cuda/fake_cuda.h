// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver without a GPU, for tests: a shared library libcuda.so.1 whose devices are threads and memory of this
// process. This is its C interface for tests and for the images that it loads; programs use it as CUDA's.
//
//   memory   Device memory is mapped twice. The address that programs see may not be touched, so that a host that
//            touches it faults; copies and kernels go through the other. Fresh memory is filled with kFakeCudaFill.
//   streams  Each is a thread. Nothing that was queued has run until something waited for it; hold() makes sure.
//   images   A shared object that exports `fake_cuda_image`. Its kernels run one thread after another. A parameter's
//            8-byte words that are addresses of device memory are exchanged for ones that may be touched. The kernels
//            of other images (cubins, PTX) are those that bind() gave it, by name.
//   errors   An error of 700 and the like stays: every later call in that context returns it, and what was queued is
//            not run.
//   capture  What a driver may refuse in a thread that captures, this one refuses.
//
// The environment, read when the library is loaded: CALLOUT_FAKE_CUDA_DEVICES (1), CALLOUT_FAKE_CUDA_VERSION (13000),
// CALLOUT_FAKE_CUDA_HIDE (functions that there are not: "cuMemAlloc,cuMemFree"), CALLOUT_FAKE_CUDA_FAIL (failures, as
// fail() takes them: "cuMemAlloc:2:2,cuInit:1:100"), CALLOUT_FAKE_CUDA_LOG (a file for the names of all calls) and
// CALLOUT_FAKE_CUDA_HOST_MEMORY (1: copies reach all memory of the host, too, as on devices with pageable memory
// access).
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// One thread of a launch.
struct FakeCudaLaunch {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int block_index[3];
  unsigned int thread_index[3];
  unsigned int shared_bytes;
  void* shared;  ///< Dynamic shared memory of the block.
  int device;
  /// A global of the kernel's image on this device. Null if there is none.
  void* (*global)(const char* name);
};

/// Returns 0, or the error that the device reports, which stays.
typedef int (*FakeCudaFunction)(const FakeCudaLaunch* launch, void** parameters);

struct FakeCudaKernel {
  const char* name;
  FakeCudaFunction function;
  size_t parameter_count;
  const size_t* parameter_bytes;  ///< Also their alignment, up to 8.
  unsigned int max_threads;       ///< Of a block; 0: the device's limit.
  unsigned int shared_bytes;      ///< Static ones.
};

struct FakeCudaGlobal {
  const char* name;
  size_t bytes;
};

/// What an image exports as `fake_cuda_image`.
struct FakeCudaImage {
  size_t kernel_count;
  const FakeCudaKernel* kernels;
  size_t global_count;
  const FakeCudaGlobal* globals;
};

enum FakeCudaKind {
  kFakeCudaContext,
  kFakeCudaStream,
  kFakeCudaEvent,
  kFakeCudaDeviceMemory,
  kFakeCudaPinnedMemory,
  kFakeCudaLibrary,
  kFakeCudaGraph,
  kFakeCudaGraphExec,
  kFakeCudaKindCount
};

enum { kFakeCudaFill = 0xA5 };

/// Thread-safe.
struct FakeCudaControl {
  /// Waits for what is queued, then forgets everything but that cuInit was called.
  void (*reset)();
  /// The `nth` call of `function` from now on (1: the next) fails with `code` and does nothing.
  void (*fail)(const char* function, int nth, int code);
  /// Calls of `function` since reset().
  int (*calls)(const char* function);
  /// One line a call since reset(). Borrowed: valid until the thread's next log().
  const char* (*log)();
  /// Streams run nothing until release().
  void (*hold)();
  void (*release)();
  /// Living things of a kind.
  int64_t (*live)(FakeCudaKind kind);
  /// reset(), and then that many. Nobody may hold a context.
  void (*set_devices)(int count);
  /// A kernel for images that only a GPU understands. Borrowed: what it points to.
  void (*bind)(const FakeCudaKernel* kernel);
  /// A global of such images. Borrowed: its name.
  void (*bind_global)(const FakeCudaGlobal* global);
};

/// What the library exports.
typedef const FakeCudaControl* (*FakeCudaControlFn)();
}
