// SPDX-License-Identifier: Apache-2.0
//
// A probe surrounds each run of a callback: a call by a program, the delivery of a tap's record, or the inspection of a
// value. The probe marks the run for reports of hangs and crashes, times it, counts it, and records it in a profile.
#pragma once

#include <cstdint>

#include "core/base/ticks.h"
#include "core/callbacks/call_statistics.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/in_flight.h"
#include "core/profile/recorder.h"

namespace callout::internal {

/// Returns the event of a profile's session for `callback`; the caller adds further fields.
CALLOUT_EXPORT ProfileEvent EventOf(ProfileKind kind, const Callback& callback, int32_t device_ordinal,
                                    uint32_t session);

/// One run of a callback. Lives on the stack of the thread that runs the callback, from before the run until after
/// Over.
class Probe {
 public:
  /// Times each run, or as many as Stopwatch samples.
  enum class Timing { kEach, kSampled };

  [[gnu::always_inline]] Probe(Activity activity, Callback& callback, int32_t device_ordinal, int64_t run_id,
                               Timing timing)
      : callback_(callback),
        device_ordinal_(device_ordinal),
        in_flight_(activity, callback.id(), device_ordinal, run_id, callback.label().c_str()),
        stopwatch_(callback.stats(), timing == Timing::kEach) {}

  /// Ends and counts the run, which had operands and results of `bytes`.
  [[gnu::always_inline]] void Over(uint64_t bytes, bool failed) const {
    stopwatch_.Stop();
    callback_.stats().Count(bytes);
    if (failed) [[unlikely]]
      callback_.stats().errors.fetch_add(1, std::memory_order_relaxed);
  }
  /// Ends and counts the run. If a profile is recorded, `note` gets the event and adds further fields.
  template <typename Note>
  [[gnu::always_inline]] void Over(uint64_t bytes, bool failed, ProfileKind kind, const Note& note) const {
    if (span_.on()) [[unlikely]]
      Record(bytes, failed, kind, note);
    Over(bytes, failed);
  }

 private:
  template <typename Note>
  [[gnu::noinline, gnu::cold]] void Record(uint64_t bytes, bool failed, ProfileKind kind, const Note& note) const {
    ProfileEvent event = EventOf(kind, callback_, device_ordinal_, span_.session());
    event.bytes = bytes;
    event.failed = failed;
    note(event);
    span_.End(event);
  }

  Callback& callback_;
  const int32_t device_ordinal_;
  InFlightScope in_flight_;
  ProfileSpan span_;
  Stopwatch stopwatch_;
};

}  // namespace callout::internal
