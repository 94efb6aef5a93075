// SPDX-License-Identifier: Apache-2.0
#include "driver/captures.h"

#include <algorithm>
#include <utility>

#include "driver/enqueue.h"

namespace callout::software_gpu {
namespace {

void AddEdges(Edges& edges, const Edges& more) {
  for (const Edge& edge : more) {
    const auto same = [&](const Edge& own) { return own.from == edge.from; };
    if (std::none_of(edges.begin(), edges.end(), same)) edges.push_back(edge);
  }
}

// Makes edges from kernels programmatic (Programming Guide, Programmatic Dependent Launch, Use in CUDA Graphs).
Edges Programmatic(Edges edges) {
  for (Edge& edge : edges) {
    if (edge.from->type != CU_GRAPH_NODE_TYPE_KERNEL || !IsZero(edge.data)) continue;
    edge.data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return edges;
}

void Finish(State& state, const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (CUstream stream : state.streams) {
    if (stream->capture != capture) continue;
    stream->capture = nullptr;
    stream->after.clear();
  }
  --capture->graph->captures;
  state.captures.erase(capture);
}

// True if the last nodes of all streams of the recording precede the end of the origin stream.
bool IsJoined(const State& state, const std::shared_ptr<Capture>& capture) {
  const auto behind = Behind(capture->origin->after);
  return std::all_of(state.streams.begin(), state.streams.end(), [&](CUstream stream) {
    if (stream->capture != capture) return true;
    return std::all_of(stream->after.begin(), stream->after.end(), [&](const Edge& edge) {
      return !state.graph_nodes.contains(edge.from) || behind.contains(edge.from->id);
    });
  });
}

// The legacy stream cannot be recorded, nor used while a blocking stream, for which it waits, is recorded.
CUresult RefuseLegacy(const State& state, CUstream stream) {
  if (stream != stream->context->legacy) return CUDA_SUCCESS;
  for (CUstream other : state.streams) {
    if (other->blocking && other->context == stream->context && other->capture != nullptr) {
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Begin(const Call& call, CUstream handle, CUstreamCaptureMode mode, CUgraph graph, Edges after) {
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const bool owns = graph == nullptr;
  if (owns) graph = NewGraph(state);
  ++graph->captures;
  stream->capture = std::make_shared<Capture>(Capture{.id = ++state.captures_begun,
                                                      .mode = mode,
                                                      .thread = std::this_thread::get_id(),
                                                      .origin = stream,
                                                      .graph = graph,
                                                      .owns_graph = owns});
  stream->after = std::move(after);
  state.captures.insert(stream->capture);
  return CUDA_SUCCESS;
}

CUstreamCaptureStatus StatusOf(const CUstream_st& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

struct Info {
  CUstreamCaptureStatus* status;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** data = nullptr;
  size_t* count = nullptr;
};

CUresult GiveInfo(CUstream_st& stream, const Info& info) {
  *info.status = StatusOf(stream);
  if (*info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  stream.after_nodes.clear();
  stream.after_data.clear();
  bool zero = true;
  for (const Edge& edge : stream.after) {
    stream.after_nodes.push_back(edge.from);
    stream.after_data.push_back(edge.data);
    zero = zero && IsZero(edge.data);
  }
  if (info.nodes != nullptr && info.data == nullptr && !zero) return CUDA_ERROR_LOSSY_QUERY;
  if (info.id != nullptr) *info.id = stream.capture->id;
  if (info.graph != nullptr) *info.graph = stream.capture->graph;
  if (info.nodes != nullptr) *info.nodes = stream.after_nodes.data();
  if (info.data != nullptr) *info.data = stream.after_data.data();
  if (info.count != nullptr) *info.count = stream.after.size();
  return CUDA_SUCCESS;
}

CUresult AskStream(const char* function, CUstream handle, const Info& info) {
  const Call call(function, kContext);
  if (call.refused()) return call.result();
  CUstream stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (info.status == nullptr || (info.data != nullptr && info.nodes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = RefuseLegacy(call.state(), stream); refused != CUDA_SUCCESS) return refused;
  return GiveInfo(*stream, info);
}

}  // namespace

CUresult InvalidateCapture(CUstream stream, CUresult code) {
  stream->capture->invalidated = true;
  return code;
}

// A copy, because Finish destroys the list's pointer.
void AbandonCapture(State& state, std::shared_ptr<Capture> capture) {
  Finish(state, capture);
  if (capture->owns_graph) DeleteGraph(state, capture->graph);
}

CUresult RecordNode(State& state, CUstream stream, NewNode node) {
  Capture& capture = *stream->capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUgraphNode added = nullptr;
  const Edges after = node.programmatic ? Programmatic(stream->after) : stream->after;
  const CUresult result = AddNode(state, capture.graph, after, std::move(node), &added);
  if (result != CUDA_SUCCESS) return InvalidateCapture(stream, result);
  stream->after = {{added, {}}};
  return CUDA_SUCCESS;
}

CUresult RecordEvent(CUstream stream, CUevent event) {
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  event->after = stream->after;
  return CUDA_SUCCESS;
}

CUresult WaitForRecordedEvent(CUstream stream, CUevent event) {
  if (event->capture == nullptr) {
    // A replayed wait cannot wait for work outside of the recording.
    if (!event->mark.recorded()) return CUDA_SUCCESS;
    return InvalidateCapture(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (stream->capture == nullptr) {
    if (stream == stream->context->legacy) {
      event->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (event->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
    if (event->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture = event->capture;
    stream->after.clear();
  } else if (stream->capture != event->capture) {
    event->capture->invalidated = true;
    return InvalidateCapture(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  AddEdges(stream->after, event->after);
  return CUDA_SUCCESS;
}

CUresult RecordEventNode(State& state, CUstream stream, CUevent event, CUgraphNodeType type) {
  NewNode node{.type = type};
  if (const CUresult wrong = MakeEventWork(state, event, &node.work); wrong != CUDA_SUCCESS) return wrong;
  return RecordNode(state, stream, std::move(node));
}

extern "C" CUresult cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

extern "C" CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  const Call call("cuStreamBeginCapture", kContext);
  if (call.refused()) return call.result();
  return Begin(call, stream, mode, nullptr, {});
}

extern "C" CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                                const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode) {
  const Call call("cuStreamBeginCaptureToGraph", kContext);
  if (call.refused()) return call.result();
  if (!call.state().graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  Edges after;
  const CUresult wrong = ReadEdges(call.state(), graph, dependencies, data, count, &after);
  return wrong != CUDA_SUCCESS ? wrong : Begin(call, stream, mode, graph, std::move(after));
}

extern "C" CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const Call call("cuThreadExchangeStreamCaptureMode", kInitialized);
  if (call.refused()) return call.result();
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, ThreadCaptureMode());
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const Call call("cuStreamEndCapture", kContext);
  if (call.refused()) return call.result();
  State& state = call.state();
  CUstream stream = FindStream(state, call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const bool is_elsewhere =
      capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id();
  // The recording ends even if this returns an error, as with driver 580 on an H100.
  const CUresult result = capture->invalidated        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : is_elsewhere              ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                          : !IsJoined(state, capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                      : CUDA_SUCCESS;
  Finish(state, capture);
  if (result == CUDA_SUCCESS) {
    *graph = capture->graph;
  } else if (capture->owns_graph) {
    DeleteGraph(state, capture->graph);
  }
  return result;
}

extern "C" CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return AskStream("cuStreamIsCapturing", stream, {.status = status});
}

extern "C" CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return AskStream("cuStreamGetCaptureInfo", stream, {.status = status, .id = id});
}

extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return AskStream("cuStreamGetCaptureInfo", stream, {status, id, graph, dependencies, nullptr, count});
}

extern "C" CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* graph, const CUgraphNode** dependencies,
                                              const CUgraphEdgeData** data, size_t* count) {
  return AskStream("cuStreamGetCaptureInfo", stream, {status, id, graph, dependencies, data, count});
}

extern "C" CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* dependencies,
                                                         const CUgraphEdgeData* data, size_t count,
                                                         unsigned int flags) {
  const Call call("cuStreamUpdateCaptureDependencies", kContext);
  if (call.refused()) return call.result();
  CUstream stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  Edges edges;
  const CUresult wrong = ReadEdges(call.state(), stream->capture->graph, dependencies, data, count, &edges);
  if (wrong != CUDA_SUCCESS) return wrong;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->after.clear();
  AddEdges(stream->after, edges);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                                      unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}

}  // namespace callout::software_gpu
