// SPDX-License-Identifier: Apache-2.0
//
// Contexts that hosts pass to runs. The runtime knows a run with a context by a launch id that this file chooses; by
// the launch id, handlers find both the host's context and the run id that the host chose. XLA's own way of passing
// data to handlers is not used, because it crashes in runs without such data.
#pragma once

#include <cstdint>
#include <memory>

#include "callout/export.h"

namespace callout::internal {

/// The context of one run, for as long as this object lives. Thread-safe.
class CALLOUT_EXPORT RunContext {
 public:
  /// Returns whether `run_id` may be a launch id. A run without a RunContext must not use such a number.
  static bool IsLaunchId(int32_t run_id) { return run_id < 0 || run_id >= kFirst; }

  /// Keeps `given`. Callbacks get `run_id`; 0: they get the launch id.
  RunContext(std::shared_ptr<void> given, int32_t run_id);
  ~RunContext();
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  /// Returns the number with which the run is to be launched; no other current run has the same number.
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

/// Returns the context and the run id of the run that the runtime calls `launch_id`; no context and `launch_id` itself
/// if the run has no RunContext. Thread-safe.
CALLOUT_EXPORT SeenRun FindRun(int64_t launch_id);

}  // namespace callout::internal
