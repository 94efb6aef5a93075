// SPDX-License-Identifier: Apache-2.0
//
// The one driver of the process, and what every call of it begins with.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "driver/device_memory.h"
#include "driver/objects.h"

namespace callout::software_gpu {

constexpr int kMaxThreads = 1024;
constexpr int kSharedBytes = 48 * 1024;
constexpr int kSharedBytesOptIn = 227 * 1024;
constexpr int kReservedSharedBytes = 1024;  // of each block
constexpr int kSharedBytesOfMultiprocessor = 228 * 1024;
constexpr int kThreadsOfMultiprocessor = 2048;
constexpr int kBlocksOfMultiprocessor = 32;
constexpr int kGreatestPriority = -5;
constexpr int kMultiprocessors = 4;  // an H100 has 132

/// Of cuMemAddressReserve.
struct Reservation {
  size_t bytes;
  char* twin;  ///< Where what is mapped may be touched.
};

/// That of every device: 90 is 9.0.
inline constexpr int kComputeCapability = 90;

struct State {
  std::mutex mutex;
  bool initialized = false;
  int version = 13000;
  bool reaches_host_memory = false;
  bool lazy = true;  ///< CUDA_MODULE_LOADING
  std::set<std::string> hidden;
  std::string log_path;

  bool HasDevice(CUdevice device) const { return device >= 0 && static_cast<size_t>(device) < contexts.size(); }

  std::vector<std::unique_ptr<CUctx_st>> contexts;  // one a device
  std::vector<int> numbers;                         // of devices among the machine's, some of which may be hidden
  std::set<CUstream> streams;                       // without the legacy ones
  std::set<CUevent> events;
  std::set<CUlibrary> libraries;
  std::set<CUmodule> modules;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<PhysicalMemory>> physical;
  std::map<CUdeviceptr, Reservation> reservations;
  std::set<CUmemoryPool> pools;
  std::map<int, CUmemoryPool> default_pools;
  std::map<int, CUmemoryPool> current_pools;
  std::set<CUkernel> kernels;
  std::set<CUfunction> functions;
  std::set<CUgraph> graphs;
  std::set<CUgraphNode> graph_nodes;
  std::set<CUgraphExec> graph_execs;
  std::set<CUuserObject> user_objects;  // those that callers have references of
  std::map<CUgraphConditionalHandle, std::weak_ptr<Condition>> conditions;
  std::set<std::shared_ptr<Capture>> captures;
  uint64_t captures_begun = 0;
  MemoryMap memory;
  std::vector<std::shared_ptr<Queue>> retired;  // of destroyed streams
  std::map<std::string, SoftwareGpuKernel> bound;
  std::map<std::string, size_t> bound_globals;

  std::map<std::string, int> calls;
  std::multimap<std::string, std::pair<int, CUresult>> failures;  // at which call, and how
  std::string log;
  std::map<std::thread::id, std::string> thread_logs;

  /// CUDA_ERROR_NOT_SUPPORTED for a thing that this GPU does not have, with its name in the log.
  CUresult Refuse(const std::string& what);
  /// For the order of a launch's nodes: none if nothing is to be random.
  std::optional<uint64_t> NextSeed();
  std::optional<std::mt19937_64> seeds;  ///< CALLOUT_SOFTWARE_GPU_DELAYS
};

/// Never destroyed: queues use it until the process ends.
State& TheState();

/// The thread's contexts, the current one last.
std::vector<CUcontext>& ContextStack();

enum Needs : unsigned {
  kAlways = 0,  ///< Also before cuInit.
  kInitialized = 1,
  kContext = 2 | 1,   ///< A current context without an error.
  kNotInCapture = 4,  ///< What no thread may do that captures.
};

/// Holds the mutex, logs, and says whether the call may go on.
class Call {
 public:
  Call(const char* function, unsigned needs, const std::string& arguments = {});

  bool refused() const { return result_ != CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  /// The current context. Null only if the call does not need one.
  CUcontext context() const { return context_; }
  State& state() const { return state_; }
  /// Before waiting: what is queued needs the mutex.
  void Unlock() { lock_.unlock(); }
  void Lock() { lock_.lock(); }

 private:
  CUresult Refusal(unsigned needs);
  CUresult Scripted(const char* function);

  State& state_;
  std::unique_lock<std::mutex> lock_;
  CUcontext context_ = nullptr;
  CUresult result_;
};

/// True in a host function, which must not call the driver.
bool& InHostFunction();

/// How this thread's calls stand to recordings: as CU_STREAM_CAPTURE_MODE_*, global by default.
CUstreamCaptureMode& ThreadCaptureMode();

/// True for a context of a device, retained.
bool IsContext(const State& state, CUcontext context);

/// What a kernel's cudaGraphSetConditional does. False if the context has no such handle. Takes the mutex.
bool SetCondition(State& state, CUcontext context, CUgraphConditionalHandle handle, uint32_t value);

/// True for errors after which a context is of no use.
bool Stays(CUresult result);

/// Where a device's or pinned address may be touched. Null if not all of it lies in one allocation.
/// **Thread-safe.**
char* FindMemory(State& state, CUdeviceptr address, size_t bytes);

/// True for memory of the host that the driver does not know, which copies must not touch after their call, or before
/// it (Driver API, API synchronization behavior). With the mutex held.
bool IsPageable(State& state, CUdeviceptr address);

/// True for an address of cuMemAddressReserve.
bool IsReserved(State& state, CUdeviceptr address);

/// What reset() needs, with the mutex held.
void ForgetVirtualMemory(State& state);
void ForgetPools(State& state);

/// The context of pinned memory. Null for other memory.
CUcontext PinnedContext(State& state, CUdeviceptr address);

/// A global of an image in a context, zeros at first. Zero if there is none.
CUdeviceptr GlobalMemory(State& state, CUlibrary library, CUcontext context, const std::string& name);

/// The kernel's function in a context.
CUfunction FunctionOf(State& state, CUkernel kernel, CUcontext context);

/// How many blocks of a cooperative launch there may be.
int MaxCooperativeBlocks(const CUkern_st& kernel, int block, size_t dynamic_shared);

/// The library's PTX in the context, loaded if it was not. An error's text is in `problem`.
CUresult ProgramOf(State& state, CUlibrary library, CUcontext context, std::shared_ptr<LoadedProgram>* program,
                   std::string* problem);

/// A library of the image, and its end. `problem` has what was wrong.
CUresult MakeLibrary(State& state, const void* image, CUlibrary* library, std::string* problem);
void DeleteLibrary(State& state, CUlibrary library);

/// CUDA_ERROR_INVALID_HANDLE if there is none, or why its image was refused.
CUresult CheckLibrary(const State& state, CUlibrary library);

/// Ends the recording of whoever may not do this now; the error that the caller gets, if there is one.
CUresult RefuseInCapture(State& state);

/// Destroys what belongs to the context. Holds the queues of its streams, which the caller lets go of without the
/// mutex.
std::vector<std::shared_ptr<Queue>> TearDown(State& state, CUcontext context);

}  // namespace callout::software_gpu
