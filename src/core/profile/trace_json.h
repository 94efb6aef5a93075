// SPDX-License-Identifier: Apache-2.0
//
// A recording as a timeline in the Trace Event Format.
#pragma once

#include <cstdint>
#include <string>

#include "core/profile/timeline.h"

namespace callout::internal {

struct TraceOptions {
  int64_t process = 1;   ///< The `pid` of all events.
  int64_t shift_ns = 0;  ///< Added to all times.
  std::string process_name = "callout";
};

/// The events of a JSON array, without its brackets: spans of the rows, drops, arrows from each tap to its delivery,
/// and how full the queues were. By time. `rows` is of ArrangeRows.
CALLOUT_EXPORT std::string TraceEvents(const Recording& recording, const Rows& rows, const TraceOptions& options);

/// A whole file of them.
CALLOUT_EXPORT std::string TraceFile(const Recording& recording, const Rows& rows, const TraceOptions& options);

/// What a kind is called in a trace.
const char* KindName(ProfileKind kind);

}  // namespace callout::internal
