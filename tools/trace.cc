// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "profile/timeline.h"
#include "profile/trace_json.h"

namespace callout::tools {
namespace {

constexpr uint64_t kMaxEvents = 4'000'000;

}  // namespace

PhaseSpan::~PhaseSpan() {
  if (!span_.on()) return;
  std::atomic<uint64_t> cache{0};
  span_.End({.label = internal::ProfileLabel(span_.session(), name_, cache), .kind = internal::ProfileKind::kPhase});
}

Status BeginTrace() { return internal::StartRecording(kMaxEvents); }

Status WriteTrace(const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(internal::Recording recording, internal::StopRecording());
  const internal::Rows rows = internal::ArrangeRows(recording);
  errno = 0;
  std::ofstream file(path);
  file << internal::TraceFile(recording, rows, {.process = getpid()});
  if (file.flush()) return OkStatus();
  return InternalError("callout: cannot write the trace '" + path + "': " + std::strerror(errno));
}

}  // namespace callout::tools
