// SPDX-License-Identifier: Apache-2.0
//
// Records what callbacks do, when somebody asked for it. Off, it costs a relaxed load of one number where something
// could be recorded. On, each thread writes into chunks of its own; nobody waits for anybody:
//
//   thread ── log ── chunk ──next──> chunk
//                     [event][event]  [event]^ the thread appends
//
// Stop takes the number away, waits until no thread is inside an append, which takes nanoseconds, and then owns all
// chunks. Chunks come out of one budget of events; what does not fit is counted.
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
  int64_t id;  ///< The kernel's.
  std::string name;
  bool delivers;  ///< One of Callout's delivery threads.
};

struct Recording {
  std::vector<ProfileEvent> events;  ///< In the order of each thread, by thread. Times are in nanoseconds.
  std::vector<std::string> labels;   ///< The first is "".
  std::vector<ProfileThread> threads;
  uint64_t left_out = 0;  ///< Events beyond the budget.
  int64_t duration_ns = 0;
  int64_t begin_steady_ns = 0;  ///< Of the steady clock.
  double begin_wall_seconds = 0;
};

/// 0: nothing is recorded; else the number of the recording. Read it through ProfileSession.
CALLOUT_EXPORT extern std::atomic<uint32_t> g_profile_session;

inline uint32_t ProfileSession() { return g_profile_session.load(std::memory_order_relaxed); }

/// Begins. `max_events` (at least 1, 64 bytes each) bounds the memory; the first ones are kept. FailedPrecondition if a
/// recording runs already. Thread-safe.
CALLOUT_EXPORT Status StartRecording(uint64_t max_events);
/// Ends. What is open, or of an earlier recording, is not in it. FailedPrecondition if none runs. Thread-safe.
CALLOUT_EXPORT Result<Recording> StopRecording();

/// Adds to the recording `session`, if it still runs; 0 is none. Thread-safe. GIL not needed.
CALLOUT_EXPORT void RecordEvent(uint32_t session, const ProfileEvent& event);

/// The number of `label` in the recording `session`; 0 if that is over. `cache` belongs to the label and saves the
/// search. Thread-safe.
CALLOUT_EXPORT uint32_t ProfileLabel(uint32_t session, const std::string& label, std::atomic<uint64_t>& cache);

/// The calling thread is one of the delivery threads. To be called before it records anything.
void ProfileThreadDelivers();

/// The time from its making to End, if something records then. On the stack of one thread.
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
