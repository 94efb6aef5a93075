// SPDX-License-Identifier: Apache-2.0
//
// What hosts give to runs. A runtime knows a run with a context by a number of ours, under which handlers find both
// what its host gave and the number that its host gave it. A runtime's own way of passing data to handlers crashes in
// runs that nothing was given to.
#pragma once

#include <cstdint>
#include <memory>

#include "callout/export.h"

namespace callout::internal {

/// What one run was given, for as long as this object lives. Thread-safe.
class CALLOUT_EXPORT RunContext {
 public:
  /// Runs are launched as one of these numbers only if they have a RunContext.
  static bool IsLaunchId(int32_t run_id) { return run_id < 0 || run_id >= kFirst; }

  /// Keeps `given`. `run_id`: what callbacks see; 0: the number that it is launched as.
  RunContext(std::shared_ptr<void> given, int32_t run_id);
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  /// The number that the run is to be launched as: no other that goes on has it.
  int32_t launch_id() const { return launch_id_; }

 private:
  static constexpr int32_t kFirst = 1 << 30;

  const std::shared_ptr<void> given_;
  int32_t launch_id_ = 0;
};

/// A run as its callbacks see it.
struct SeenRun {
  void* context = nullptr;  ///< Borrowed: valid as long as its RunContext.
  int64_t id = 0;
};

/// What the run that the runtime calls `launch_id` was given; that number itself and nothing if it has no RunContext.
/// Thread-safe.
CALLOUT_EXPORT SeenRun FindRun(int64_t launch_id);

}  // namespace callout::internal
