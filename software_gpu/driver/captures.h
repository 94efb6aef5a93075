// SPDX-License-Identifier: Apache-2.0
//
// Stream capture (Driver API, Stream Management): what is put on a stream that is recorded becomes a node of a graph.
// With the mutex of State held.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "driver/graph_nodes.h"
#include "driver/objects.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// One recording. Its streams share it, and so do the events that were recorded on them.
struct Capture {
  uint64_t id;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin;
  CUgraph graph;
  bool owns_graph;  ///< Nobody else has it before the recording ends.
  bool invalidated = false;
  bool ended = false;
};

/// Adds a node behind what the stream has, and puts the stream behind it. A refused node ends the recording.
CUresult RecordNode(State& state, CUstream stream, NewNode node);

/// For calls that a recording does not survive; returns `code`.
CUresult InvalidateCapture(CUstream stream, CUresult code);

/// The event stands for what the stream's next node will come after.
CUresult RecordEvent(CUstream stream, CUevent event);

/// A record or a wait that is a node, and not an edge.
CUresult RecordEventNode(State& state, CUstream stream, CUevent event, CUgraphNodeType type);

/// The stream comes behind the event too, and joins its recording if it is in none.
CUresult WaitForRecordedEvent(CUstream stream, CUevent event);

/// Ends the recording without a graph, as the loss of one of its streams does.
void AbandonCapture(State& state, std::shared_ptr<Capture> capture);

}  // namespace callout::software_gpu
