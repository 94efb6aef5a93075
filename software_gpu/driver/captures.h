// SPDX-License-Identifier: Apache-2.0
//
// Stream capture (Driver API, Stream Management): work put on a stream that is recorded becomes a node of a graph. All
// functions require the mutex of State.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "driver/graph_nodes.h"
#include "driver/objects.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// One recording. Its streams share it, and so do the events recorded on them.
struct Capture {
  uint64_t id;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin;
  CUgraph graph;
  bool owns_graph;  ///< True if nobody else knows the graph before the recording ends.
  bool invalidated = false;
  bool ended = false;
};

/// Adds a node after the stream's work so far, and makes the stream's later work follow it. A node that is refused ends
/// the recording.
CUresult RecordNode(State& state, CUstream stream, NewNode node);

/// Invalidates the recording, for calls that a recording does not survive. Returns `code`.
CUresult InvalidateCapture(CUstream stream, CUresult code);

/// Makes the event stand for the nodes that the stream's next node will follow.
CUresult RecordEvent(CUstream stream, CUevent event);

/// Adds a node for a record of an event, or for a wait, instead of edges.
CUresult RecordEventNode(State& state, CUstream stream, CUevent event, CUgraphNodeType type);

/// Makes the stream's later work follow the event as well. A stream in no recording joins the event's.
CUresult WaitForRecordedEvent(CUstream stream, CUevent event);

/// Ends the recording without a graph, as the destruction of one of its streams does.
void AbandonCapture(State& state, std::shared_ptr<Capture> capture);

}  // namespace callout::software_gpu
