// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver without a GPU, for tests: a shared library libcuda.so.1 whose devices are threads and memory of this
// process. This is its C interface for tests and for the images that it loads; programs use it as CUDA's.
//
//   memory   Device memory is mapped twice. The address that programs see may not be touched, so that a host that
//            touches it faults; copies and kernels go through the other. Fresh memory is filled with kSoftwareGpuFill.
//   streams  Each is a thread. Nothing that was queued has run until something waited for it; hold() makes sure.
//   images   A shared object that exports `software_gpu_image`. Its kernels run one thread after another. A parameter's
//            8-byte words that are addresses of device memory are exchanged for ones that may be touched. The kernels
//            of other images (cubins, PTX) are those that bind() gave it, by name.
//   errors   An error of 700 and the like stays: every later call in that context returns it, and what was queued is
//            not run.
//   capture  What a driver may refuse in a thread that captures, this one refuses.
//
// The environment, read when the library is loaded: CALLOUT_SOFTWARE_GPU_DEVICES (1), CALLOUT_SOFTWARE_GPU_VERSION
// (13000), CALLOUT_SOFTWARE_GPU_HIDE (functions that there are not: "cuMemAlloc,cuMemFree"), CALLOUT_SOFTWARE_GPU_FAIL
// (failures, as fail() takes them: "cuMemAlloc:2:2,cuInit:1:100"), CALLOUT_SOFTWARE_GPU_LOG (a file for the names of
// all calls), CALLOUT_SOFTWARE_GPU_HOST_MEMORY (1: copies reach all memory of the host, too, as on devices with
// pageable memory access), CUDA_VISIBLE_DEVICES (which of the devices there are, and in which order: "1,0") and
// CUDA_MODULE_LOADING (EAGER: kernels of PTX are loaded with their module; otherwise by their first launch, which a
// recording does not survive). CALLOUT_SOFTWARE_GPU_DELAYS (a number, the seed) makes streams wait for up to 200 us
// before some of what they run, and graphs run in any order that their edges allow, so that an order which nothing but
// luck keeps is lost; streams read it when they are made.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// One thread of a launch.
struct SoftwareGpuLaunch {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int block_index[3];
  unsigned int thread_index[3];
  unsigned int shared_bytes;
  void* shared;  ///< Dynamic shared memory of the block.
  int device;
  /// A global of the kernel's image on this device. Null if there is none.
  void* (*global)(const char* name);
  /// cudaGraphSetConditional. Zero, or the error that the kernel is to return.
  int (*set_conditional)(uint64_t handle, unsigned int value);
};

/// Returns 0, or the error that the device reports, which stays.
typedef int (*SoftwareGpuFunction)(const SoftwareGpuLaunch* launch, void** parameters);

struct SoftwareGpuKernel {
  const char* name;
  SoftwareGpuFunction function;
  size_t parameter_count;
  const size_t* parameter_bytes;  ///< Also their alignment, up to 8.
  unsigned int max_threads;       ///< Of a block; 0: the device's limit.
  unsigned int shared_bytes;      ///< Static ones.
  unsigned int cluster = 0;       ///< Blocks along x of the clusters that it is compiled for; 0: it is for none.
};

struct SoftwareGpuGlobal {
  const char* name;
  size_t bytes;
};

/// What an image exports as `software_gpu_image`.
struct SoftwareGpuImage {
  size_t kernel_count;
  const SoftwareGpuKernel* kernels;
  size_t global_count;
  const SoftwareGpuGlobal* globals;
};

enum SoftwareGpuKind {
  kSoftwareGpuContext,
  kSoftwareGpuStream,
  kSoftwareGpuEvent,
  kSoftwareGpuDeviceMemory,
  kSoftwareGpuPinnedMemory,
  kSoftwareGpuLibrary,
  kSoftwareGpuGraph,
  kSoftwareGpuGraphExec,
  kSoftwareGpuKindCount
};

enum { kSoftwareGpuFill = 0xA5 };

/// Thread-safe.
struct SoftwareGpuControl {
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
  int64_t (*live)(SoftwareGpuKind kind);
  /// reset(), and then that many. Nobody may hold a context.
  void (*set_devices)(int count);
  /// A kernel for images that only a GPU understands. Borrowed: what it points to.
  void (*bind)(const SoftwareGpuKernel* kernel);
  /// A global of such images. Borrowed: its name.
  void (*bind_global)(const SoftwareGpuGlobal* global);
  /// From now on graphs run in a random order of those that their edges allow.
  void (*shuffle_graphs)(uint64_t seed);
  /// The lines of log() that are this thread's calls. Borrowed: valid until the thread's next one.
  const char* (*thread_log)();
};

/// What the library exports.
typedef const SoftwareGpuControl* (*SoftwareGpuControlFn)();
}
