// SPDX-License-Identifier: Apache-2.0
#include "driver/enqueue.h"

namespace callout::software_gpu {
namespace {

CUresult RefuseEvent(State& state, CUevent event) {
  if (!state.events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) {
    event->capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return RefuseInCapture(state);
}

bool IsDone(const Mark& mark) { return mark.queue == nullptr || mark.queue->Done(mark.ticket); }

CUresult WaitWhileRecording(CUstream stream, CUevent event) {
  if (event->capture == nullptr) {
    // Work outside of the recording cannot be waited for by what is replayed.
    if (event->mark.queue == nullptr) return CUDA_SUCCESS;
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream->capture == nullptr) {
    if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (event->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
    stream->capture = event->capture;
    stream->after.clear();
  } else if (stream->capture != event->capture) {
    stream->capture->invalidated = true;
    event->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  stream->after.insert(event->after.begin(), event->after.end());
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  const Call call("cuEventCreate", kContext);
  if (call.refused()) return call.result();
  *event = new CUevent_st{.context = call.context(), .timed = (flags & CU_EVENT_DISABLE_TIMING) == 0};
  call.state().events.insert(*event);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuEventDestroy_v2(CUevent event) {
  const Call call("cuEventDestroy", kContext);
  if (call.refused()) return call.result();
  if (call.state().events.erase(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuEventRecord(CUevent event, CUstream handle) {
  const Call call("cuEventRecord", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr || !state.events.contains(event) || event->context != stream->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture != nullptr) {
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->after = stream->after;
    return CUDA_SUCCESS;
  }
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  event->capture = nullptr;
  event->mark = EnqueueMark(state, stream);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
  const Call call("cuStreamWaitEvent", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr || !state.events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr && stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture != nullptr || event->capture != nullptr) return WaitWhileRecording(stream, event);
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  const Mark mark = event->mark;
  if (IsDone(mark)) return CUDA_SUCCESS;
  stream->queue->Push([mark] { mark.queue->WaitFor(mark.ticket); });
  return CUDA_SUCCESS;
}

extern "C" CUresult cuEventQuery(CUevent event) {
  const Call call("cuEventQuery", kContext);
  if (call.refused()) return call.result();
  if (const CUresult refused = RefuseEvent(call.state(), event); refused != CUDA_SUCCESS) return refused;
  return IsDone(event->mark) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

extern "C" CUresult cuEventSynchronize(CUevent event) {
  Call call("cuEventSynchronize", kContext);
  if (call.refused()) return call.result();
  if (const CUresult refused = RefuseEvent(call.state(), event); refused != CUDA_SUCCESS) return refused;
  const Mark mark = event->mark;
  CUcontext context = event->context;
  call.Unlock();
  if (mark.queue != nullptr) mark.queue->WaitFor(mark.ticket);
  return context->fault;
}

extern "C" CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  const Call call("cuEventElapsedTime", kContext);
  if (call.refused()) return call.result();
  for (CUevent event : {start, end}) {
    if (const CUresult refused = RefuseEvent(call.state(), event); refused != CUDA_SUCCESS) return refused;
    if (!event->timed || event->mark.queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!IsDone(event->mark)) return CUDA_ERROR_NOT_READY;
  }
  const std::chrono::duration<float, std::milli> elapsed = *end->mark.time - *start->mark.time;
  *milliseconds = elapsed.count();
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
