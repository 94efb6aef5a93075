// SPDX-License-Identifier: Apache-2.0
//
// How work gets onto a stream: queued behind what must run first, or recorded. With the mutex held.
#pragma once

#include "driver/state.h"

namespace callout::software_gpu {

/// The stream of a handle: the legacy one of the context for a null or 1. Null if there is none.
CUstream FindStream(State& state, CUcontext current, CUstream handle);

CUresult Enqueue(State& state, CUcontext current, CUstream handle, Node node);

/// Queues nothing but a mark, behind everything that the stream is behind. Not for streams that are recorded.
Mark EnqueueMark(State& state, CUstream stream);

/// The queues of a context's streams.
std::vector<std::shared_ptr<Queue>> PendingQueues(State& state, CUcontext context);

/// Runs the nodes one after another until one fails, which stays; none, if one did before. Without the mutex.
void Execute(CUcontext context, const Nodes& nodes);

/// 900 for calls that wait for a stream that is recorded, whose recording they end; 906 for the legacy stream while
/// a stream that it waits for is.
CUresult RefuseCaptured(State& state, CUstream stream);

}  // namespace callout::software_gpu
