// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "driver/enqueue.h"

namespace callout::software_gpu {
namespace {

// Queues that have run dry end here, and not where their stream is destroyed, which does not wait.
std::vector<std::shared_ptr<Queue>> TakeFinished(State& state) {
  std::vector<std::shared_ptr<Queue>> finished;
  std::erase_if(state.retired, [&](const std::shared_ptr<Queue>& queue) {
    if (!queue->Done(queue->last())) return false;
    finished.push_back(queue);
    return true;
  });
  return finished;
}

}  // namespace

extern "C" CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  Call call("cuStreamCreate", kContext);
  if (call.refused()) return call.result();
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = new CUstream_st{.context = call.context(), .blocking = flags != CU_STREAM_NON_BLOCKING};
  call.state().streams.insert(*stream);
  const auto finished = TakeFinished(call.state());
  call.Unlock();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamDestroy_v2(CUstream stream) {
  const Call call("cuStreamDestroy", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (state.streams.erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    std::erase_if(state.captures, [&](const auto& capture) { return capture->origin == stream; });
  }
  state.retired.push_back(stream->queue);
  delete stream;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamSynchronize(CUstream handle) {
  Call call("cuStreamSynchronize", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  if (const CUresult refused = RefuseInCapture(state); refused != CUDA_SUCCESS) return refused;
  CUcontext context = stream->context;
  const Mark mark = EnqueueMark(state, stream);
  call.Unlock();
  mark.queue->WaitFor(mark.ticket);
  return context->fault;
}

extern "C" CUresult cuStreamQuery(CUstream handle) {
  const Call call("cuStreamQuery", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  if (const CUresult refused = RefuseInCapture(state); refused != CUDA_SUCCESS) return refused;
  return stream->queue->Done(stream->queue->last()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

extern "C" CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user_data) {
  const Call call("cuLaunchHostFunc", kContext);
  if (call.refused()) return call.result();
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto run = [function, user_data] {
    InHostFunction() = true;
    function(user_data);
    InHostFunction() = false;
    return CUDA_SUCCESS;
  };
  return Enqueue(call.state(), call.context(), stream,
                 {NodeKind::kHostFunction, reinterpret_cast<const void*>(function), run});
}

extern "C" CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, uint32_t value, unsigned int flags) {
  const Call call("cuStreamWriteValue32", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (flags > 1 || at % sizeof(value) != 0 || FindMemory(state, at, sizeof(value)) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto run = [&state, at, value]() -> CUresult {
    const std::lock_guard lock(state.mutex);
    char* memory = FindMemory(state, at, sizeof(value));
    if (memory == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    // What was queued before is seen by whoever acquires the value.
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(memory)).store(value, std::memory_order_release);
    return CUDA_SUCCESS;
  };
  return Enqueue(state, call.context(), stream, {NodeKind::kWriteValue, nullptr, run});
}

}  // namespace callout::software_gpu
