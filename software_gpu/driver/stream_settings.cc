// SPDX-License-Identifier: Apache-2.0
//
// Priorities and names of streams, their callbacks, and events with flags (Driver API, Stream Management, Event
// Management).
#include <algorithm>

#include "driver/enqueue.h"
#include "driver/graph_run.h"

namespace callout::software_gpu {

extern "C" CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  const Call call("cuStreamCreateWithPriority", kContext);
  if (call.refused()) return call.result();
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = new CUstream_st{.context = call.context(), .blocking = flags != CU_STREAM_NON_BLOCKING};
  // Priorities outside of the range become the nearest one in it (Driver API, cuStreamCreateWithPriority).
  (*stream)->priority = std::clamp(priority, kGreatestPriority, 0);
  call.state().streams.insert(*stream);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  const Call call("cuStreamGetPriority", kContext);
  if (call.refused()) return call.result();
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  const Call call("cuStreamGetFlags", kContext);
  if (call.refused()) return call.result();
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  const Call call("cuStreamGetId", kContext);
  if (call.refused()) return call.result();
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *id = stream->queue->id();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  const Call call("cuStreamGetCtx", kContext);
  if (call.refused()) return call.result();
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = stream->context;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}

extern "C" CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  const Call call("cuStreamGetDevice", kContext);
  if (call.refused()) return call.result();
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned int flags) {
  const Call call("cuStreamAddCallback", kContext);
  if (call.refused()) return call.result();
  if (flags != 0 || callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = RefuseCaptured(call.state(), stream); refused != CUDA_SUCCESS) return refused;
  const auto tell = [=](CUresult status) {
    InHostFunction() = true;
    callback(handle, status, data);
    InHostFunction() = false;
  };
  // The callback is called after an error, too, with the error's code.
  EnqueueWork(
      call.state(), stream,
      [=] {
        tell(CUDA_SUCCESS);
        return CUDA_SUCCESS;
      },
      [=, context = stream->context] { tell(context->fault); });
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
