// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/trace.h"

#include <unistd.h>

#include <atomic>

#include "core/profile/recorder.h"
#include "core/profile/trace_json.h"

namespace callout::pjrt {

Status StartTrace(uint64_t max_events) { return internal::StartRecording(max_events); }

Result<std::string> StopTrace() {
  CALLOUT_ASSIGN_OR_RETURN(internal::Recording recording, internal::StopRecording());
  const internal::Rows rows = internal::ArrangeRows(recording);
  return internal::TraceFile(recording, rows, {.process = getpid()});
}

TracePhase::TracePhase(const char* name)
    : name_(name), session_(internal::ProfileSession()), begin_(session_ != 0 ? internal::Ticks() : 0) {}

TracePhase::~TracePhase() {
  if (session_ == 0) return;
  std::atomic<uint64_t> cache{0};
  internal::RecordEvent(session_, {.begin = static_cast<int64_t>(begin_),
                                   .end = static_cast<int64_t>(internal::Ticks()),
                                   .label = internal::ProfileLabel(session_, name_, cache),
                                   .kind = internal::ProfileKind::kPhase});
}

}  // namespace callout::pjrt
