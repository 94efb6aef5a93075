// SPDX-License-Identifier: Apache-2.0
//
// A timeline of what callbacks do in this process: calls, taps, their deliveries and what they wait for, and phases of
// the host's own. It is what callout.profile records in Python.
#pragma once

#include <cstdint>
#include <string>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::pjrt {

/// Begins to record, of all threads. `max_events` (at least 1, 64 bytes each) bounds the memory: the first ones are
/// kept. FailedPrecondition if something records already. Thread-safe. GIL not needed.
CALLOUT_EXPORT Status StartTrace(uint64_t max_events = 4000000);

/// Ends, and returns the timeline in the Trace Event Format: JSON for a file that ui.perfetto.dev and chrome://tracing
/// show. What is still open is not in it. FailedPrecondition if nothing records. Thread-safe. GIL not needed.
CALLOUT_EXPORT Result<std::string> StopTrace();

/// A phase of the host's program, from its making to its end, if something records then. Phases of one thread may lie
/// in each other. Off, it costs a load of one number. One thread. GIL not needed.
class CALLOUT_EXPORT TracePhase {
 public:
  /// Begins. `name`: outlives this.
  explicit TracePhase(const char* name);
  /// Ends, and records it.
  ~TracePhase();
  TracePhase(const TracePhase&) = delete;             ///< A phase ends once.
  TracePhase& operator=(const TracePhase&) = delete;  ///< A phase ends once.

 private:
  const char* const name_;
  const uint32_t session_;
  const uint64_t begin_;
};

}  // namespace callout::pjrt
