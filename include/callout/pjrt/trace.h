// SPDX-License-Identifier: Apache-2.0
//
// A timeline of the callbacks of this process: calls, taps, deliveries, the waits of each, and phases of the host's own
// program. callout.profile records the same timeline in Python.
#pragma once

#include <cstdint>
#include <string>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::pjrt {

/// Begins to record on all threads. `max_events` (at least 1, 64 bytes each) bounds the memory: only the first events
/// are kept. Returns FailedPrecondition if a recording runs already. Thread-safe. GIL not needed.
CALLOUT_EXPORT Status StartTrace(uint64_t max_events = 4000000);

/// Ends the recording, and returns the timeline in the Trace Event Format: JSON for a file that ui.perfetto.dev and
/// chrome://tracing show. The timeline lacks events that have begun and not ended. Returns FailedPrecondition if no
/// recording runs. Thread-safe. GIL not needed.
CALLOUT_EXPORT Result<std::string> StopTrace();

/// A phase of the host's program, from its construction to its destruction, if a recording runs at that time. Phases of
/// one thread may be nested. Without a recording, a phase costs a load of one number. One thread. GIL not needed.
class CALLOUT_EXPORT TracePhase {
 public:
  /// Begins the phase. Borrowed: `name` must outlive this object.
  explicit TracePhase(const char* name);
  /// Ends the phase, and records it.
  ~TracePhase();
  TracePhase(const TracePhase&) = delete;             ///< Deleted, because a phase ends once.
  TracePhase& operator=(const TracePhase&) = delete;  ///< Deleted, because a phase ends once.

 private:
  const char* const name_;
  const uint32_t session_;
  const uint64_t begin_;
};

}  // namespace callout::pjrt
