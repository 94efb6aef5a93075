// SPDX-License-Identifier: Apache-2.0
#include "driver/enqueue.h"

#include "driver/defaults.h"

#include <utility>

#include "driver/captures.h"

namespace callout::software_gpu {
namespace {

constexpr uintptr_t kLegacyHandle = 1;     // CU_STREAM_LEGACY
constexpr uintptr_t kPerThreadHandle = 2;  // CU_STREAM_PER_THREAD

// Returns the thread's own stream, which ends with its context. It is a blocking stream: it and the legacy stream wait
// for each other.
CUstream PerThreadStream(State& state, CUcontext context) {
  CUstream& stream = context->per_thread[std::this_thread::get_id()];
  if (stream == nullptr) {
    stream = new CUstream_st{.context = context, .blocking = true};
    stream->implicit = true;
    state.streams.insert(stream);
  }
  return stream;
}

void PushWait(const std::shared_ptr<Queue>& behind, const std::shared_ptr<Queue>& waiter) {
  const uint64_t ticket = behind->last();
  if (behind->Done(ticket)) return;
  waiter->Push([behind, ticket] { behind->WaitFor(ticket); });
}

// Orders the legacy stream behind the blocking streams, and them behind the legacy stream.
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

// Runs work of a stream, without the mutex. An error stays in the context, and nothing runs after it.
void Execute(CUcontext context, const std::function<CUresult()>& run, const std::function<void()>& skip) {
  if (context->fault != CUDA_SUCCESS) {
    if (skip) skip();
    return;
  }
  if (const CUresult result = run(); result != CUDA_SUCCESS) context->fault = result;
}

CUresult RecordTask(State& state, CUstream stream, const Task& task) {
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!task.record) return InvalidateCapture(stream, state.Refuse(std::string("a recorded ") + NameOf(task.type)));
  NewNode node{.type = task.type};
  node.programmatic = task.programmatic;
  if (const CUresult wrong = task.record(&node.work); wrong != CUDA_SUCCESS) return InvalidateCapture(stream, wrong);
  return RecordNode(state, stream, std::move(node));
}

}  // namespace

CUstream FindStream(State& state, CUcontext current, CUstream handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number == kPerThreadHandle || (number == 0 && PerThreadStreams::Active())) return PerThreadStream(state, current);
  if (number <= kLegacyHandle) return current->legacy;
  return state.streams.contains(handle) ? handle : nullptr;
}

void WaitForRoom(Call& call, CUstream handle) {
  CUstream const stream = FindStream(call.state(), call.context(), handle);
  if (stream == nullptr || stream->capture != nullptr) return;
  const std::shared_ptr<Queue> queue = stream->queue;
  if (queue->HasRoom()) return;
  call.Unlock();
  queue->WaitForRoom();
  call.Lock();
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

CUresult RefuseCaptured(State& state, CUcontext context) {
  CUresult result = CUDA_SUCCESS;
  for (CUstream stream : state.streams) {
    if (stream->context == context && stream->capture != nullptr) {
      result = InvalidateCapture(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
  }
  return result;
}

CUresult Enqueue(State& state, CUcontext current, CUstream handle, Task task) {
  CUstream stream = FindStream(state, current, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return RecordTask(state, stream, task);
  if (const CUresult refused = RefuseCaptured(state, stream); refused != CUDA_SUCCESS) return refused;
  EnqueueWork(state, stream, std::move(task.run));
  return CUDA_SUCCESS;
}

void EnqueueWork(State& state, CUstream stream, std::function<CUresult()> run, std::function<void()> skip) {
  OrderWithLegacy(state, stream);
  stream->queue->Push(
      [context = stream->context, run = std::move(run), skip = std::move(skip)] { Execute(context, run, skip); });
}

void EnqueueWait(CUstream stream, const Mark& mark) {
  if (mark.Done() || mark.queue == stream->queue) return;
  stream->queue->Push([mark] { mark.Wait(); });
}

Mark EnqueueMark(State& state, CUstream stream) {
  OrderWithLegacy(state, stream);
  Mark mark{.queue = stream->queue, .time = std::make_shared<std::chrono::steady_clock::time_point>()};
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

}  // namespace callout::software_gpu
