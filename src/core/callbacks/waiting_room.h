// SPDX-License-Identifier: Apache-2.0
//
// Who looks after meetings that devices wait for: what happens if one of them never comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/meeting.h"

namespace callout::internal {

/// Thread-safe.
class CALLOUT_EXPORT WaitingRoom {
 public:
  /// How long it is remembered that a run failed.
  static constexpr std::chrono::milliseconds kFailureMemory = std::chrono::minutes(10);

  /// Never destroyed.
  static WaitingRoom& Get();

  /// Looks after `meeting` until it is over: when nobody has come for half of the limit, one warning says who waits for
  /// whom, and after the limit all get DeadlineExceeded. The time begins again while a device of the run is in a
  /// callback. Returns what the run has failed with: then nobody looks after it. If no thread can be had for it, nobody
  /// looks until somebody else comes.
  std::optional<Status> Enter(std::shared_ptr<Meeting> meeting);
  void Leave(const Meeting* meeting);

  /// A device of this run failed and comes to no meeting: whoever waits in one, or comes later, fails, too. A run
  /// without a number (0) is not known.
  void NoteFailure(int64_t run_id, const Status& failure);
  /// What whoever comes to a meeting of the run is to fail with.
  std::optional<Status> FindFailure(int64_t run_id);

  /// 40 s by default, as long as XLA waits. For tests.
  void SetLimit(std::chrono::milliseconds limit, std::chrono::milliseconds memory = kFailureMemory);

 private:
  struct State;

  WaitingRoom();
  /// Has whoever comes later fail, and returns the meetings that wait.
  std::vector<std::shared_ptr<Meeting>> Remember(int64_t run_id, const Status& heard);
  void Watch();
  bool WatchOnce();

  State* const state_;
};

}  // namespace callout::internal
