// SPDX-License-Identifier: Apache-2.0
//
// The one driver of the process, and the beginning of each of its calls.
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

/// A range of cuMemAddressReserve.
struct Reservation {
  size_t bytes;
  char* twin;  ///< The accessible address of memory that is mapped there.
};

/// The compute capability of every device: 90 stands for 9.0.
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

  std::vector<std::unique_ptr<CUctx_st>> contexts;  // one for each device
  std::vector<int> numbers;                         // the devices' numbers on the machine, where some may be hidden
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
  std::set<CUuserObject> user_objects;  // those to which callers have references
  std::map<CUgraphConditionalHandle, std::weak_ptr<Condition>> conditions;
  std::set<std::shared_ptr<Capture>> captures;
  uint64_t captures_begun = 0;
  MemoryMap memory;
  std::vector<std::shared_ptr<Queue>> retired;  // of destroyed streams
  std::map<std::string, SoftwareGpuKernel> bound;
  std::map<std::string, size_t> bound_globals;

  std::map<std::string, int> calls;
  std::multimap<std::string, std::pair<int, CUresult>> failures;  // the number of the call, and its error
  std::string log;
  std::map<std::thread::id, std::string> thread_logs;

  /// Returns CUDA_ERROR_NOT_SUPPORTED for a feature that this GPU does not have, and logs its name.
  CUresult Refuse(const std::string& what);
  /// Returns a seed for the order of a launch's nodes; nothing if the order is not random.
  std::optional<uint64_t> NextSeed();
  std::optional<std::mt19937_64> seeds;  ///< CALLOUT_SOFTWARE_GPU_DELAYS
};

/// Never destroyed: queues use it until the process ends.
State& TheState();

/// Returns the thread's contexts, the current one last.
std::vector<CUcontext>& ContextStack();

enum Needs : unsigned {
  kAlways = 0,  ///< The call also works before cuInit.
  kInitialized = 1,
  kContext = 2 | 1,   ///< The call needs a current context without an error.
  kNotInCapture = 4,  ///< No thread that captures may make the call.
};

/// Holds the mutex, logs the call, and decides whether it may go on.
class Call {
 public:
  Call(const char* function, unsigned needs, const std::string& arguments = {});

  bool refused() const { return result_ != CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  /// Returns the current context. Null only if the call does not need one.
  CUcontext context() const { return context_; }
  State& state() const { return state_; }
  /// Call it before waiting: queued work needs the mutex.
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

/// The mode of this thread's calls towards recordings: a CU_STREAM_CAPTURE_MODE_*, global by default.
CUstreamCaptureMode& ThreadCaptureMode();

/// True for a retained context of a device.
bool IsContext(const State& state, CUcontext context);

/// Performs a kernel's cudaGraphSetConditional. Returns false if the context has no such handle. Takes the mutex.
bool SetCondition(State& state, CUcontext context, CUgraphConditionalHandle handle, uint32_t value);

/// True for errors after which a context cannot be used.
bool Stays(CUresult result);

/// Returns the accessible address of a device's or pinned memory. Null unless one allocation holds the whole range.
/// **Thread-safe.**
char* FindMemory(State& state, CUdeviceptr address, size_t bytes);

/// True for host memory that the driver does not know: copies may access it only during their call (Driver API, API
/// synchronization behavior). Requires the mutex.
bool IsPageable(State& state, CUdeviceptr address);

/// True for an address in a range of cuMemAddressReserve.
bool IsReserved(State& state, CUdeviceptr address);

/// Parts of reset(). Require the mutex.
void ForgetVirtualMemory(State& state);
void ForgetPools(State& state);

/// Returns the context of pinned memory. Null for other memory.
CUcontext PinnedContext(State& state, CUdeviceptr address);

/// Returns the address of an image's global in a context; the global is zero at first. Returns zero if there is none.
CUdeviceptr GlobalMemory(State& state, CUlibrary library, CUcontext context, const std::string& name);

/// Returns the kernel's function in a context.
CUfunction FunctionOf(State& state, CUkernel kernel, CUcontext context);

/// Returns the maximal number of blocks of a cooperative launch.
int MaxCooperativeBlocks(const CUkern_st& kernel, int block, size_t dynamic_shared);

/// Returns the library's PTX in the context, and loads it if necessary. `problem` receives the text of an error.
CUresult ProgramOf(State& state, CUlibrary library, CUcontext context, std::shared_ptr<LoadedProgram>* program,
                   std::string* problem);

/// MakeLibrary makes a library of the image; `problem` receives the reason of a failure. DeleteLibrary destroys it.
CUresult MakeLibrary(State& state, const void* image, CUlibrary* library, std::string* problem);
void DeleteLibrary(State& state, CUlibrary library);

/// Returns CUDA_ERROR_INVALID_HANDLE if there is no such library, or the error of its image.
CUresult CheckLibrary(const State& state, CUlibrary library);

/// Checks a call that is unsafe during captures. Ends the recording of a thread that may not make the call, and returns
/// the error for the caller.
CUresult RefuseInCapture(State& state);

/// Destroys the objects of the context. Returns the queues of its streams, which the caller must release without the
/// mutex.
std::vector<std::shared_ptr<Queue>> TearDown(State& state, CUcontext context);

}  // namespace callout::software_gpu
