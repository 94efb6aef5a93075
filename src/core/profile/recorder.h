// SPDX-License-Identifier: Apache-2.0
//
// Records the activity of callbacks on request. Without a recording, each possible event costs a relaxed load of one
// number. During a recording, each thread writes into its own chunks, and no thread waits for another:
//
//   thread ── log ── chunk ──next──> chunk
//                     [event][event]  [event]^ the thread appends
//
// Stop clears the number, waits until no thread is inside an append, which takes nanoseconds, and then owns all chunks.
// Chunks come out of one budget of events; events beyond the budget are counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/ticks.h"
#include "core/profile/event.h"

namespace callout::internal {

struct ProfileThread {
  int64_t id;  ///< The kernel's number of the thread.
  std::string name;
  bool delivers;  ///< The thread is one of Callout's delivery threads.
};

struct Recording {
  std::vector<ProfileEvent> events;  ///< Sorted by thread, and in the order of each thread. Times are in nanoseconds.
  std::vector<std::string> labels;   ///< The first is "".
  std::vector<ProfileThread> threads;
  uint64_t left_out = 0;  ///< Events beyond the budget.
  int64_t duration_ns = 0;
  int64_t begin_steady_ns = 0;  ///< In nanoseconds of the steady clock.
  double begin_wall_seconds = 0;
};

/// The number of the current recording; 0: none. Read it through ProfileSession.
CALLOUT_EXPORT extern std::atomic<uint32_t> g_profile_session;

inline uint32_t ProfileSession() { return g_profile_session.load(std::memory_order_relaxed); }

/// Begins a recording. `max_events` (at least 1, 64 bytes each) bounds the memory; only the first events are kept.
/// FailedPrecondition if a recording runs already. Thread-safe.
CALLOUT_EXPORT Status StartRecording(uint64_t max_events);
/// Ends the recording, and returns it without events that are still open or that began in an earlier recording.
/// FailedPrecondition if none runs. Thread-safe.
CALLOUT_EXPORT Result<Recording> StopRecording();

/// Adds an event to the recording `session`, if that recording still runs; 0 is no recording. Thread-safe. GIL not
/// needed.
CALLOUT_EXPORT void RecordEvent(uint32_t session, const ProfileEvent& event);

/// Returns the number of `label` in the recording `session`; 0 if that recording is over. `cache` belongs to the label
/// and saves a search. Thread-safe.
CALLOUT_EXPORT uint32_t ProfileLabel(uint32_t session, const std::string& label, std::atomic<uint64_t>& cache);

/// Marks the calling thread as a delivery thread. Must be called before the thread records anything.
void ProfileThreadDelivers();

/// A span from its construction to End, recorded if a recording runs at both times. Lives on the stack of one thread.
class ProfileSpan {
 public:
  ProfileSpan() : session_(ProfileSession()) {
    if (session_ != 0) [[unlikely]]
      begin_ = Ticks();
  }
  bool on() const { return session_ != 0; }
  uint32_t session() const { return session_; }
  /// Records `event` with the times filled in.
  void End(ProfileEvent event) const {
    event.begin = static_cast<int64_t>(begin_);
    event.end = static_cast<int64_t>(Ticks());
    RecordEvent(session_, event);
  }

 private:
  const uint32_t session_;
  uint64_t begin_ = 0;
};

}  // namespace callout::internal
