// SPDX-License-Identifier: Apache-2.0
//
// What is behind the double's handles. All of it is guarded by the mutex of State (state.h), except where it is said.
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

/// Something that comes about once, and that threads wait for. **Thread-safe.**
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

/// The end of what was queued on a stream at some time, or the place of a graph's launch where it records an event.
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
  /// When it was reached. Of a mark that was recorded and is done.
  std::chrono::steady_clock::time_point Time() const;
};

}  // namespace callout::software_gpu

struct CUctx_st {
  bool HasPeer(CUcontext other);  // **Thread-safe.**

  int device;
  int retained = 0;
  std::atomic<CUresult> fault{CUDA_SUCCESS};  // also written by queues
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
  bool implicit = false;  // of a thread
  std::shared_ptr<callout::software_gpu::Queue> queue = std::make_shared<callout::software_gpu::Queue>();
  std::shared_ptr<callout::software_gpu::Capture> capture = nullptr;
  callout::software_gpu::Edges after = {};    // what its next node comes after
  std::vector<CUgraphNode> after_nodes = {};  // as cuStreamGetCaptureInfo gave them
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
  SoftwareGpuFunction function;  // null: it is of the library's PTX
  std::vector<size_t> offsets = {};
  std::vector<size_t> sizes = {};
  size_t parameter_bytes = 0;
  int max_threads = 0;
  int static_shared = 0;
  int cluster = 0;  // blocks along x; 0: of none
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
  bool loaded = false;  // of PTX: its first use loads it, unless loading is eager
};

struct CUlib_st {
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels = {};
  std::map<std::string, size_t> globals = {};
  std::map<std::pair<CUcontext, std::string>, CUdeviceptr> memory = {};
  std::string ptx = {};
  std::map<CUcontext, std::shared_ptr<callout::software_gpu::LoadedProgram>> programs = {};
  bool of_module = false;           // hidden: a module has it
  CUresult refused = CUDA_SUCCESS;  // what its first use is told: loading accepts any image
};

struct CUmod_st {
  CUlibrary library;
  CUcontext context;
};
