// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "driver/enqueue.h"

namespace callout::software_gpu {
namespace {

// Whatever the origin's last nodes come after; anything else was recorded on a stream that never joined it.
size_t CountBehind(const Nodes& nodes, const std::set<size_t>& last) {
  std::set<size_t> behind;
  std::vector<size_t> open(last.begin(), last.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (behind.insert(node).second) open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return behind.size();
}

void Finish(State& state, const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (CUstream stream : state.streams) {
    if (stream->capture != capture) continue;
    stream->capture = nullptr;
    stream->after.clear();
  }
  state.captures.erase(capture);
}

}  // namespace

extern "C" CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  const Call call("cuStreamBeginCapture", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>(
      Capture{.id = ++state.captures_begun, .mode = mode, .thread = std::this_thread::get_id(), .origin = stream});
  stream->after.clear();
  state.captures.insert(stream->capture);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const Call call("cuThreadExchangeStreamCaptureMode", kInitialized);
  if (call.refused()) return call.result();
  if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, ThreadCaptureMode());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const Call call("cuStreamEndCapture", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = CountBehind(capture->nodes, stream->after) == capture->nodes.size();
  Finish(state, capture);
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = new CUgraph_st{.nodes = std::move(capture->nodes)};
  state.graphs.insert(*graph);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* graph, const CUgraphNode**, size_t*) {
  const Call call("cuStreamGetCaptureInfo", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (graph != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  *status = stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr) *id = stream->capture->id;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
