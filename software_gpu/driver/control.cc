// SPDX-License-Identifier: Apache-2.0
#include "driver/control.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include "driver/enqueue.h"
#include "driver/graph_exec.h"
#include "driver/graph_nodes.h"
#include "driver/software_gpu.h"

namespace callout::software_gpu {

void SetDevices(State& state, const std::vector<int>& numbers) {
  state.contexts.clear();
  state.numbers = numbers;
  for (size_t device = 0; device < numbers.size(); ++device) {
    state.contexts.emplace_back(new CUctx_st{.device = static_cast<int>(device)});
  }
}

void AddFailure(State& state, const std::string& function, int nth, CUresult code) {
  state.failures.emplace(function, std::pair(state.calls[function] + nth, code));
}

namespace {

template <typename T>
void DeleteAll(std::set<T*>& objects) {
  for (T* object : objects) delete object;
  objects.clear();
}

// Waits before it destroys anything, because queued work uses the contexts.
void EndContexts(State& state) {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    const std::lock_guard lock(state.mutex);
    for (const auto& context : state.contexts) {
      for (auto& queue : PendingQueues(state, context.get())) queues.push_back(std::move(queue));
    }
    std::move(state.retired.begin(), state.retired.end(), std::back_inserter(queues));
    state.retired.clear();
  }
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  const std::lock_guard lock(state.mutex);
  for (const auto& context : state.contexts) {
    TearDown(state, context.get());
    context->retained = 0;
  }
}

void Reset() {
  State& state = TheState();
  EndContexts(state);
  const std::lock_guard lock(state.mutex);
  DeleteAll(state.modules);
  DeleteAll(state.libraries);
  ForgetVirtualMemory(state);
  ForgetPools(state);
  for (CUgraphExec exec : state.graph_execs) delete exec;
  state.graph_execs.clear();
  while (!state.graphs.empty()) DeleteGraph(state, RootOf(*state.graphs.begin()));
  state.conditions.clear();
  for (CUuserObject object : state.user_objects) delete object;
  state.user_objects.clear();
  state.seeds.reset();
  state.kernels.clear();
  state.bound.clear();
  state.bound_globals.clear();
  state.calls.clear();
  state.failures.clear();
  state.log.clear();
  state.thread_logs.clear();
  ContextStack().clear();
}

void Fail(const char* function, int nth, int code) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  AddFailure(state, function, nth, static_cast<CUresult>(code));
}

int Calls(const char* function) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.calls[function];
}

const char* Log() {
  thread_local std::string copy;
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  copy = state.log;
  return copy.c_str();
}

const char* ThreadLog() {
  thread_local std::string copy;
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  copy = state.thread_logs[std::this_thread::get_id()];
  return copy.c_str();
}

int64_t Live(SoftwareGpuKind kind) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto size = [](const auto& objects) { return static_cast<int64_t>(objects.size()); };
  int64_t contexts = 0;
  for (const auto& context : state.contexts) contexts += context->retained > 0;
  switch (kind) {
    case kSoftwareGpuContext:
      return contexts;
    case kSoftwareGpuStream:
      return std::count_if(state.streams.begin(), state.streams.end(),
                           [](CUstream stream) { return !stream->implicit; });
    case kSoftwareGpuEvent:
      return size(state.events);
    case kSoftwareGpuDeviceMemory:
      return state.memory.count();
    case kSoftwareGpuPinnedMemory:
      return state.memory.count(MemoryKind::kPinned);
    case kSoftwareGpuLibrary:
      return size(state.libraries);
    case kSoftwareGpuGraph:
      return std::count_if(state.graphs.begin(), state.graphs.end(),
                           [](CUgraph graph) { return graph->owner == nullptr; });
    case kSoftwareGpuGraphExec:
      return size(state.graph_execs);
    default:
      return -1;
  }
}

void ControlDevices(int count) {
  Reset();
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  std::vector<int> numbers(static_cast<size_t>(std::max(count, 0)));
  std::iota(numbers.begin(), numbers.end(), 0);
  SetDevices(state, numbers);
}

void Bind(const SoftwareGpuKernel* kernel) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.bound[kernel->name] = *kernel;
}

void BindGlobal(const SoftwareGpuGlobal* global) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.bound_globals[global->name] = global->bytes;
}

void ShuffleGraphs(uint64_t seed) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.seeds.emplace(seed);
}

}  // namespace
}  // namespace callout::software_gpu

extern "C" __attribute__((visibility("default"))) const SoftwareGpuControl* software_gpu_control() {
  using callout::software_gpu::Queue;
  static const SoftwareGpuControl control = {
      .reset = &callout::software_gpu::Reset,
      .fail = &callout::software_gpu::Fail,
      .calls = &callout::software_gpu::Calls,
      .log = &callout::software_gpu::Log,
      .hold = &Queue::Hold,
      .release = &Queue::Release,
      .live = &callout::software_gpu::Live,
      .set_devices = &callout::software_gpu::ControlDevices,
      .bind = &callout::software_gpu::Bind,
      .bind_global = &callout::software_gpu::BindGlobal,
      .shuffle_graphs = &callout::software_gpu::ShuffleGraphs,
      .thread_log = &callout::software_gpu::ThreadLog,
  };
  return &control;
}
