// SPDX-License-Identifier: Apache-2.0
//
// What hosts give to runs, found by the number of the run. A runtime's own way of passing data to handlers crashes in
// runs that nothing was given to.
#pragma once

#include <cstdint>
#include <memory>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// What one run was given, for as long as this object lives. Thread-safe.
class CALLOUT_EXPORT RunContext {
 public:
  /// Keeps `given`, which is not null. `run_id`: 0 for a number that no run has. InvalidArgument if another run that
  /// goes on has that number and a context.
  static Result<std::shared_ptr<RunContext>> Open(std::shared_ptr<void> given, int32_t run_id);
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  int32_t run_id() const { return run_id_; }

 private:
  RunContext(std::shared_ptr<void> given, int32_t run_id) : given_(std::move(given)), run_id_(run_id) {}

  const std::shared_ptr<void> given_;
  const int32_t run_id_;
};

/// What the run was given; null for nothing. Borrowed: valid as long as its RunContext. Thread-safe.
CALLOUT_EXPORT void* ContextOfRun(int64_t run_id);

}  // namespace callout::internal
