// SPDX-License-Identifier: Apache-2.0
//
// Puts work on streams: queues it behind the work that it must follow, or records it. All functions require the mutex
// of State.
#pragma once

#include <functional>

#include "driver/graph_works.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// Returns the stream of a handle: the context's legacy stream for a null or 1. Null if there is none.
CUstream FindStream(State& state, CUcontext current, CUstream handle);

/// One piece of work for a stream, or a node of a graph if the stream is recorded.
struct Task {
  CUgraphNodeType type;
  /// Makes the node's work. Called at once, or never. Without it the call is refused in a recording and ends the
  /// recording.
  std::function<CUresult(WorkPtr* work)> record;
  std::function<CUresult()> run;  ///< Called without the mutex. An error that it returns stays in the context.
  bool programmatic = false;      ///< See NewNode.
};

CUresult Enqueue(State& state, CUcontext current, CUstream handle, Task task);

/// Queues work on a stream that is not recorded, behind all work that the stream must follow. In a context that has
/// failed before, `skip` is called instead of `run`.
void EnqueueWork(State& state, CUstream stream, std::function<CUresult()> run, std::function<void()> skip = {});
/// Makes the stream's later work wait for a mark.
void EnqueueWait(CUstream stream, const Mark& mark);

/// Releases the mutex while the stream's queue of launches is full. Blocks until there is room.
void WaitForRoom(Call& call, CUstream handle);

/// Queues only a mark, behind all work that the stream must follow. Not for streams that are recorded.
Mark EnqueueMark(State& state, CUstream stream);

/// Returns the queues of a context's streams.
std::vector<std::shared_ptr<Queue>> PendingQueues(State& state, CUcontext context);

/// Checks a call that waits for a stream. Returns 900 if the stream is recorded, and ends the recording; 906 for the
/// legacy stream while a stream for which it waits is recorded.
CUresult RefuseCaptured(State& state, CUstream stream);
/// Checks a call that waits for a whole context, with the errors of RefuseCaptured for a stream.
CUresult RefuseCaptured(State& state, CUcontext context);

}  // namespace callout::software_gpu
