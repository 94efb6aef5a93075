// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver without a GPU, for tests: a shared library libcuda.so.1 whose devices are threads and memory of this
// process. This header is its C interface for tests and for the images that it loads; programs use it as CUDA's driver.
//
//   memory   Device memory is mapped twice. The address that programs see may not be touched, so that a host that
//            touches it faults; copies and kernels use the other. Fresh memory is filled with kSoftwareGpuFill.
//   streams  Each stream is a thread. Queued work may not have run until something waits for it; hold() ensures that
//            it has not.
//   images   An image is a shared object that exports `software_gpu_image`. Its kernels run one thread after another.
//            8-byte words of a parameter that are addresses of device memory are replaced by accessible ones. The
//            kernels of other images (cubins, PTX) are those that bind() was given, by name.
//   errors   An error such as 700 stays: every later call in the context returns it, and queued work is not run.
//   capture  This driver refuses all calls that a driver may refuse in a thread that captures.
//
// These environment variables are read when the library is loaded: CALLOUT_SOFTWARE_GPU_DEVICES (1),
// CALLOUT_SOFTWARE_GPU_VERSION (13000), CALLOUT_SOFTWARE_GPU_HIDE (functions to hide: "cuMemAlloc,cuMemFree"),
// CALLOUT_SOFTWARE_GPU_FAIL (failures, as fail() takes them: "cuMemAlloc:2:2,cuInit:1:100"), CALLOUT_SOFTWARE_GPU_LOG
// (a file for the names of all calls), CALLOUT_SOFTWARE_GPU_HOST_MEMORY (1: copies can access all memory of the host,
// as on devices with pageable memory access), CUDA_VISIBLE_DEVICES (the visible devices and their order: "1,0") and
// CUDA_MODULE_LOADING (EAGER: kernels of PTX are loaded with their module; otherwise by their first launch, which a
// recording does not survive). CALLOUT_SOFTWARE_GPU_DELAYS (a number, the seed) makes streams wait for up to 200 us
// before some of their work, and graphs run in any order that their edges allow, so that an order that holds only by
// luck breaks; streams read this variable when they are made.
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
  /// Returns a global of the kernel's image on this device. Null if there is none.
  void* (*global)(const char* name);
  /// cudaGraphSetConditional. Returns zero, or the error that the kernel must return.
  int (*set_conditional)(uint64_t handle, unsigned int value);
};

/// Returns 0, or the error that the device reports, which stays.
typedef int (*SoftwareGpuFunction)(const SoftwareGpuLaunch* launch, void** parameters);

struct SoftwareGpuKernel {
  const char* name;
  SoftwareGpuFunction function;
  size_t parameter_count;
  const size_t* parameter_bytes;  ///< The sizes are also the alignments, up to 8.
  unsigned int max_threads;       ///< In a block; 0: the device's limit.
  unsigned int shared_bytes;      ///< Static shared memory.
  unsigned int cluster = 0;       ///< Blocks along x of the clusters for which it is compiled; 0: without clusters.
};

struct SoftwareGpuGlobal {
  const char* name;
  size_t bytes;
};

/// An image exports this struct as `software_gpu_image`.
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
  /// Waits for queued work, then forgets everything except that cuInit was called.
  void (*reset)();
  /// Makes the `nth` later call of `function` (1: the next) fail with `code` and do nothing.
  void (*fail)(const char* function, int nth, int code);
  /// Returns the number of calls of `function` since reset().
  int (*calls)(const char* function);
  /// Returns one line for each call since reset(). Borrowed: valid until the thread's next log().
  const char* (*log)();
  /// Keeps streams from running anything until release().
  void (*hold)();
  void (*release)();
  /// Returns the number of live objects of a kind.
  int64_t (*live)(SoftwareGpuKind kind);
  /// Calls reset(), and makes `count` devices. Nobody may hold a context.
  void (*set_devices)(int count);
  /// Adds a kernel for images that only a GPU understands. Borrowed: everything to which it points.
  void (*bind)(const SoftwareGpuKernel* kernel);
  /// Adds a global of such images. Borrowed: its name.
  void (*bind_global)(const SoftwareGpuGlobal* global);
  /// Makes graphs run in random orders that their edges allow.
  void (*shuffle_graphs)(uint64_t seed);
  /// Returns the lines of log() for this thread's calls. Borrowed: valid until the thread's next thread_log().
  const char* (*thread_log)();
};

/// The type of `software_gpu_control`, which the library exports.
typedef const SoftwareGpuControl* (*SoftwareGpuControlFn)();
}
