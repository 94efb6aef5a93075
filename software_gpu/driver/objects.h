// SPDX-License-Identifier: Apache-2.0
//
// What is behind the double's handles. All of it is guarded by the mutex of State (state.h), except where it is said.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_types.h"
#include "driver/queue.h"
#include "driver/software_gpu.h"

namespace callout::software_gpu {

enum class NodeKind { kCopy, kSet, kKernel, kHostFunction, kWriteValue, kGraph };

/// One thing for a device to do. `run` returns an error that stays, and is called without the mutex.
struct Node {
  NodeKind kind;
  const void* what;  ///< The kernel or function, for updates.
  std::function<CUresult()> run;
  std::set<size_t> after = {};  ///< Nodes of the same graph.
};
using Nodes = std::vector<Node>;

/// Calls on streams that are being recorded.
struct Capture {
  uint64_t id;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin;
  bool invalidated = false;
  bool ended = false;
  Nodes nodes = {};
};

/// The end of what was queued on a stream at some time.
struct Mark {
  std::shared_ptr<Queue> queue;
  uint64_t ticket = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

}  // namespace callout::software_gpu

struct CUctx_st {
  int device;
  int retained = 0;
  std::atomic<CUresult> fault{CUDA_SUCCESS};  // also written by queues
  CUstream legacy = nullptr;
};

struct CUstream_st {
  CUcontext context;
  bool blocking;
  std::shared_ptr<callout::software_gpu::Queue> queue = std::make_shared<callout::software_gpu::Queue>();
  std::shared_ptr<callout::software_gpu::Capture> capture = nullptr;
  std::set<size_t> after = {};  // what its next node comes after
};

struct CUevent_st {
  CUcontext context;
  bool timed;
  callout::software_gpu::Mark mark = {};  // without a queue: never recorded
  std::shared_ptr<callout::software_gpu::Capture> capture = nullptr;
  std::set<size_t> after = {};
};

struct CUkern_st {
  CUlibrary library;
  std::string name;
  SoftwareGpuFunction function;
  std::vector<size_t> offsets = {};
  std::vector<size_t> sizes = {};
  size_t parameter_bytes = 0;
  int max_threads = 0;
  int static_shared = 0;
  std::map<CUcontext, std::unique_ptr<CUfunc_st>> functions = {};
};

struct CUfunc_st {
  CUkernel kernel;
  CUcontext context;
  int max_dynamic_shared;
};

struct CUlib_st {
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels = {};
  std::map<std::string, size_t> globals = {};
  std::map<std::pair<CUcontext, std::string>, CUdeviceptr> memory = {};
};

struct CUgraph_st {
  callout::software_gpu::Nodes nodes = {};
};

struct CUgraphExec_st {
  std::shared_ptr<const callout::software_gpu::Nodes> nodes;
};
