// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "driver/captures.h"
#include "driver/enqueue.h"
#include "driver/state.h"

bool CUctx_st::HasPeer(CUcontext other) {
  const std::lock_guard lock(peers_mutex);
  return peers.contains(other);
}

namespace callout::software_gpu {
namespace {

template <typename T>
void DeleteAllOf(std::set<T*>& objects, CUcontext context) {
  for (auto entry = objects.begin(); entry != objects.end();) {
    if ((*entry)->context == context) {
      delete *entry;
      entry = objects.erase(entry);
    } else {
      ++entry;
    }
  }
}

// Deletes the context's modules. A module of a library does not delete its library.
void DeleteModulesOf(State& state, CUcontext context) {
  const std::set<CUmodule> modules = state.modules;
  for (CUmodule module : modules) {
    if (module->context != context) continue;
    if (module->library->of_module) {
      DeleteLibrary(state, module->library);
    } else {
      state.modules.erase(module);
      delete module;
    }
  }
}

}  // namespace

std::vector<std::shared_ptr<Queue>> TearDown(State& state, CUcontext context) {
  std::vector<std::shared_ptr<Queue>> queues;
  for (CUstream stream : state.streams) {
    if (stream->context == context) queues.push_back(stream->queue);
  }
  if (context->legacy != nullptr) queues.push_back(context->legacy->queue);
  while (!state.captures.empty()) {
    const auto own = std::find_if(state.captures.begin(), state.captures.end(),
                                  [&](const auto& capture) { return capture->origin->context == context; });
    if (own == state.captures.end()) break;
    AbandonCapture(state, *own);
  }
  DeleteAllOf(state.streams, context);
  DeleteAllOf(state.events, context);
  context->per_thread.clear();
  delete std::exchange(context->legacy, nullptr);
  DeleteModulesOf(state, context);
  std::erase_if(state.functions, [&](CUfunction function) { return function->context == context; });
  for (CUlibrary library : state.libraries) {
    for (const auto& [name, kernel] : library->kernels) kernel->functions.erase(context);
    std::erase_if(library->memory, [&](const auto& entry) { return entry.first.first == context; });
    library->programs.erase(context);
  }
  // Queued work no longer finds its memory, which is no error of a context that ends.
  state.memory.FreeAllOf(context);
  for (void* memory : state.memory.RemoveHostOf(context)) std::free(memory);
  context->fault = CUDA_SUCCESS;
  context->limits.clear();
  for (const auto& other : state.contexts) {
    const std::lock_guard lock(other->peers_mutex);
    other->peers.erase(context);
    if (other.get() == context) other->peers.clear();
  }
  return queues;
}

extern "C" CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Call call("cuDevicePrimaryCtxRetain", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (device < 0 || static_cast<size_t>(device) >= state.contexts.size()) return CUDA_ERROR_INVALID_DEVICE;
  *context = state.contexts[static_cast<size_t>(device)].get();
  if ((*context)->retained++ == 0) (*context)->legacy = new CUstream_st{.context = *context, .blocking = true};
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Call call("cuDevicePrimaryCtxRelease", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (device < 0 || static_cast<size_t>(device) >= state.contexts.size()) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context = state.contexts[static_cast<size_t>(device)].get();
  if (context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->retained > 0) return CUDA_SUCCESS;
  std::vector<std::shared_ptr<Queue>> queues = PendingQueues(state, context);
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  {
    const std::lock_guard lock(state.mutex);
    TearDown(state, context).swap(queues);
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetCurrent(CUcontext* context) {
  const Call call("cuCtxGetCurrent", kInitialized);
  if (!call.refused()) *context = call.context();
  return call.result();
}

extern "C" CUresult cuCtxPushCurrent_v2(CUcontext context) {
  const Call call("cuCtxPushCurrent", kInitialized);
  if (call.refused()) return call.result();
  if (context == nullptr || context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  ContextStack().push_back(context);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  const Call call("cuCtxPopCurrent", kInitialized);
  if (call.refused()) return call.result();
  if (ContextStack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = ContextStack().back();
  ContextStack().pop_back();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxSynchronize() { return cuCtxSynchronize_v2(nullptr); }

// Synchronizes `context`, or the current context if it is null.
extern "C" CUresult cuCtxSynchronize_v2(CUcontext context) {
  Call call("cuCtxSynchronize", (context == nullptr ? kContext : kInitialized) | kNotInCapture);
  if (call.refused()) return call.result();
  if (context == nullptr) context = call.context();
  if (!IsContext(call.state(), context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult refused = RefuseCaptured(call.state(), context); refused != CUDA_SUCCESS) return refused;
  const std::vector<std::shared_ptr<Queue>> queues = PendingQueues(call.state(), context);
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  return context->fault;
}

extern "C" CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Call call("cuDevicePrimaryCtxReset", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext const context = state.contexts[static_cast<size_t>(device)].get();
  if (context->retained == 0) return CUDA_SUCCESS;
  std::vector<std::shared_ptr<Queue>> queues = PendingQueues(state, context);
  call.Unlock();
  for (const auto& queue : queues) queue->WaitFor(queue->last());
  {
    const std::lock_guard lock(state.mutex);
    context->retained = 0;
    context->flags = 0;
    TearDown(state, context).swap(queues);
  }
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
