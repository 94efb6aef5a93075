// SPDX-License-Identifier: Apache-2.0
#include "driver/enqueue.h"

#include <utility>

namespace callout::software_gpu {
namespace {

constexpr uintptr_t kLegacyHandle = 1;

void PushWait(const std::shared_ptr<Queue>& behind, const std::shared_ptr<Queue>& waiter) {
  const uint64_t ticket = behind->last();
  if (behind->Done(ticket)) return;
  waiter->Push([behind, ticket] { behind->WaitFor(ticket); });
}

// The legacy stream runs behind the blocking ones, and they behind it.
void OrderWithLegacy(State& state, CUstream stream) {
  CUstream legacy = stream->context->legacy;
  if (stream == legacy) {
    for (CUstream other : state.streams) {
      if (other->blocking && other->context == stream->context) PushWait(other->queue, legacy->queue);
    }
  } else if (stream->blocking) {
    PushWait(legacy->queue, stream->queue);
  }
}

CUresult Record(CUstream stream, Node node) {
  Capture& capture = *stream->capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node.after = stream->after;
  stream->after = {capture.nodes.size()};
  capture.nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

}  // namespace

CUstream FindStream(State& state, CUcontext current, CUstream handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= kLegacyHandle) return current->legacy;
  return state.streams.contains(handle) ? handle : nullptr;
}

CUresult RefuseCaptured(State& state, CUstream stream) {
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream != stream->context->legacy) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (CUstream other : state.streams) {
    if (!other->blocking || other->context != stream->context || other->capture == nullptr) continue;
    other->capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult Enqueue(State& state, CUcontext current, CUstream handle, Node node) {
  CUstream stream = FindStream(state, current, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return Record(stream, std::move(node));
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  OrderWithLegacy(state, stream);
  Nodes nodes;
  nodes.push_back(std::move(node));
  stream->queue->Push([context = stream->context, nodes = std::move(nodes)] { Execute(context, nodes); });
  return CUDA_SUCCESS;
}

Mark EnqueueMark(State& state, CUstream stream) {
  OrderWithLegacy(state, stream);
  Mark mark{stream->queue, 0, std::make_shared<std::chrono::steady_clock::time_point>()};
  mark.ticket = stream->queue->Push([time = mark.time] { *time = std::chrono::steady_clock::now(); });
  return mark;
}

std::vector<std::shared_ptr<Queue>> PendingQueues(State& state, CUcontext context) {
  std::vector<std::shared_ptr<Queue>> queues;
  for (CUstream stream : state.streams) {
    if (stream->context == context) queues.push_back(stream->queue);
  }
  if (context->legacy != nullptr) queues.push_back(context->legacy->queue);
  return queues;
}

void Execute(CUcontext context, const Nodes& nodes) {
  for (const Node& node : nodes) {
    if (context->fault != CUDA_SUCCESS) return;
    if (const CUresult result = node.run(); result != CUDA_SUCCESS) context->fault = result;
  }
}

}  // namespace callout::software_gpu
