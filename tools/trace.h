// SPDX-License-Identifier: Apache-2.0
//
// The command's timeline: what callbacks did, as every profile has it, and the command's own phases.
#pragma once

#include <string>

#include "callout/status.h"
#include "profile/recorder.h"

namespace callout::tools {

/// A phase of the command, from its making to its end, if a timeline is recorded.
class PhaseSpan {
 public:
  /// `name`: outlives this.
  explicit PhaseSpan(const char* name) : name_(name) {}
  ~PhaseSpan();
  PhaseSpan(const PhaseSpan&) = delete;
  PhaseSpan& operator=(const PhaseSpan&) = delete;

 private:
  const char* const name_;
  const internal::ProfileSpan span_;
};

/// Begins to record.
Status BeginTrace();

/// Ends it, and writes it. Errors: with the path.
Status WriteTrace(const std::string& path);

}  // namespace callout::tools
