// SPDX-License-Identifier: Apache-2.0
#include "driver/captures.h"
#include "driver/enqueue.h"
#include "driver/graph_run.h"

namespace callout::software_gpu {
namespace {

// Takes queues of destroyed streams that have run all work. They end here, because cuStreamDestroy does not wait.
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
  if (const std::shared_ptr<Capture> capture = stream->capture; capture != nullptr) {
    capture->invalidated = true;
    if (capture->origin == stream) AbandonCapture(state, capture);
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
  mark.Wait();
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
  const CUDA_HOST_NODE_PARAMS params{function, user_data};
  return Enqueue(call.state(), call.context(), stream,
                 {.type = CU_GRAPH_NODE_TYPE_HOST,
                  .record = [&](WorkPtr* work) { return MakeHostWork(params, work); },
                  .run = [params] { return PerformHost(params); }});
}

}  // namespace callout::software_gpu
