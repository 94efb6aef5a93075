// SPDX-License-Identifier: Apache-2.0
//
// The objects behind the software driver's handles. The mutex of State (state.h) guards all of them, unless a comment
// names another guard.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_types.h"
#include "driver/graph.h"
#include "driver/queue.h"
#include "driver/software_gpu.h"

namespace callout::software_gpu {

struct Capture;
struct LoadedProgram;

/// A condition that becomes true once, and for which threads wait. **Thread-safe.**
class Milestone {
 public:
  void Reach();
  bool Reached();
  void Wait();
  std::chrono::steady_clock::time_point time();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

/// The end of the work queued on a stream at some time, or the place in a graph's launch that records an event.
struct Mark {
  std::shared_ptr<Queue> queue = nullptr;
  uint64_t ticket = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> time = nullptr;
  std::shared_ptr<Milestone> milestone = nullptr;

  bool recorded() const { return queue != nullptr || milestone != nullptr; }
  /// True if there is nothing to wait for.
  bool Done() const;
  /// **Blocks until** Done().
  void Wait() const;
  /// Returns when the mark was reached. Requires that it was recorded and is done.
  std::chrono::steady_clock::time_point Time() const;
};

}  // namespace callout::software_gpu

struct CUctx_st {
  bool HasPeer(CUcontext other);  // **Thread-safe.**

  int device;
  int retained = 0;
  std::atomic<CUresult> fault{CUDA_SUCCESS};  // queues write it, too
  CUstream legacy = nullptr;
  unsigned int flags = 0;
  std::map<std::thread::id, CUstream> per_thread = {};
  std::map<CUlimit, size_t> limits = {};
  std::mutex peers_mutex = {};
  std::set<CUcontext> peers = {};
};

struct CUstream_st {
  CUcontext context;
  bool blocking;
  int priority = 0;
  bool implicit = false;  // a thread's own stream
  std::shared_ptr<callout::software_gpu::Queue> queue = std::make_shared<callout::software_gpu::Queue>();
  std::shared_ptr<callout::software_gpu::Capture> capture = nullptr;
  callout::software_gpu::Edges after = {};    // the nodes that its next node follows
  std::vector<CUgraphNode> after_nodes = {};  // as cuStreamGetCaptureInfo returned them
  std::vector<CUgraphEdgeData> after_data = {};
};

struct CUevent_st {
  CUcontext context;
  bool timed;
  callout::software_gpu::Mark mark = {};  // without a queue: never recorded
  std::shared_ptr<callout::software_gpu::Capture> capture = nullptr;
  callout::software_gpu::Edges after = {};
};

struct CUkern_st {
  CUlibrary library;
  std::string name;
  SoftwareGpuFunction function;  // null for a kernel of the library's PTX
  std::vector<size_t> offsets = {};
  std::vector<size_t> sizes = {};
  size_t parameter_bytes = 0;
  int max_threads = 0;
  int static_shared = 0;
  int cluster = 0;  // blocks along x; 0: without clusters
  int local_bytes = 0;
  int registers = 32;
  std::map<CUcontext, std::unique_ptr<CUfunc_st>> functions = {};
};

struct CUfunc_st {
  CUkernel kernel;
  CUcontext context;
  int max_dynamic_shared;
  bool large_clusters = false;
  int carveout = -1;
  bool loaded = false;  // for PTX: the first use loads it, unless loading is eager
};

struct CUlib_st {
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels = {};
  std::map<std::string, size_t> globals = {};
  std::map<std::pair<CUcontext, std::string>, CUdeviceptr> memory = {};
  std::string ptx = {};
  std::map<CUcontext, std::shared_ptr<callout::software_gpu::LoadedProgram>> programs = {};
  bool of_module = false;           // hidden, because a module owns it
  CUresult refused = CUDA_SUCCESS;  // the error of its first use: loading accepts any image
};

struct CUmod_st {
  CUlibrary library;
  CUcontext context;
};
