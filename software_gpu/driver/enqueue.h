// SPDX-License-Identifier: Apache-2.0
//
// How work gets onto a stream: queued behind what must run first, or recorded. With the mutex held.
#pragma once

#include <functional>

#include "driver/graph_works.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// The stream of a handle: the legacy one of the context for a null or 1. Null if there is none.
CUstream FindStream(State& state, CUcontext current, CUstream handle);

/// One thing for a stream to do: a node of a graph if it is recorded.
struct Task {
  CUgraphNodeType type;
  /// What the node has. Called at once, or not at all. Without it a recording is refused and ended.
  std::function<CUresult(WorkPtr* work)> record;
  std::function<CUresult()> run;  ///< Called without the mutex. Its error stays.
  bool programmatic = false;      ///< As in NewNode.
};

CUresult Enqueue(State& state, CUcontext current, CUstream handle, Task task);

/// Queues on a stream that is not recorded, behind everything that it is behind. `skip` is called instead of `run` in a
/// context that failed before.
void EnqueueWork(State& state, CUstream stream, std::function<CUresult()> run, std::function<void()> skip = {});
/// Puts the stream behind a mark.
void EnqueueWait(CUstream stream, const Mark& mark);

/// Lets go of the mutex while the stream's queue of launches is full.
void WaitForRoom(Call& call, CUstream handle);

/// Queues nothing but a mark, behind everything that the stream is behind. Not for streams that are recorded.
Mark EnqueueMark(State& state, CUstream stream);

/// The queues of a context's streams.
std::vector<std::shared_ptr<Queue>> PendingQueues(State& state, CUcontext context);

/// 900 for calls that wait for a stream that is recorded, whose recording they end; 906 for the legacy stream while
/// a stream that it waits for is.
CUresult RefuseCaptured(State& state, CUstream stream);
/// The same for calls that wait for a whole context.
CUresult RefuseCaptured(State& state, CUcontext context);

}  // namespace callout::software_gpu
