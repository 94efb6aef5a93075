// SPDX-License-Identifier: Apache-2.0
#include "driver/captures.h"
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
  return cuEventRecordWithFlags(event, handle, CU_EVENT_RECORD_DEFAULT);
}

extern "C" CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags) {
  const Call call("cuEventRecord", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr || !state.events.contains(event) || event->context != stream->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture != nullptr) {
    return flags == CU_EVENT_RECORD_EXTERNAL ? RecordEventNode(state, stream, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                                             : RecordEvent(stream, event);
  }
  // CUevent_record_flags: an external record is allowed only in a recording.
  if (flags == CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
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
  if (flags == CU_EVENT_WAIT_EXTERNAL) {
    if (stream->capture == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return RecordEventNode(state, stream, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  }
  if (stream->capture != nullptr || event->capture != nullptr) return WaitForRecordedEvent(stream, event);
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  EnqueueWait(stream, event->mark);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuEventQuery(CUevent event) {
  const Call call("cuEventQuery", kContext);
  if (call.refused()) return call.result();
  if (const CUresult refused = RefuseEvent(call.state(), event); refused != CUDA_SUCCESS) return refused;
  return event->mark.Done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

extern "C" CUresult cuEventSynchronize(CUevent event) {
  Call call("cuEventSynchronize", kContext);
  if (call.refused()) return call.result();
  if (const CUresult refused = RefuseEvent(call.state(), event); refused != CUDA_SUCCESS) return refused;
  const Mark mark = event->mark;
  CUcontext context = event->context;
  call.Unlock();
  mark.Wait();
  return context->fault;
}

extern "C" CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  const Call call("cuEventElapsedTime", kContext);
  if (call.refused()) return call.result();
  for (CUevent event : {start, end}) {
    if (const CUresult refused = RefuseEvent(call.state(), event); refused != CUDA_SUCCESS) return refused;
    if (!event->timed || !event->mark.recorded()) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->mark.Done()) return CUDA_ERROR_NOT_READY;
  }
  const std::chrono::duration<float, std::milli> elapsed = end->mark.Time() - start->mark.Time();
  *milliseconds = elapsed.count();
  return CUDA_SUCCESS;
}

// Unlike cuEventElapsedTime, it does not report errors of queued work; here every call reports them.
extern "C" CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime(milliseconds, start, end);
}

}  // namespace callout::software_gpu
