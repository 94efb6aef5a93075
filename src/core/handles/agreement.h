// SPDX-License-Identifier: Apache-2.0
//
// One answer for all devices of a run. Devices that run the same program ask the same questions in the same order, but
// at different times. If each device got the truth of its own moment, one could leave a loop in which another waits for
// it. So the device that asks a question first fixes the answer for all.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"
#include "core/handles/handle_table.h"
#include "core/handles/host_object.h"

namespace callout::internal {

/// The questions at one place of a program. Thread-safe.
class CALLOUT_EXPORT Agreement {
 public:
  /// Prepares the answers for `devices` devices in each run. An old answer is kept until so many devices are past it.
  explicit Agreement(int64_t devices) : devices_(devices) {}

  /// Returns the answer to the next question of `device` about `handle` in `run`. `read` answers a question that no
  /// other device has asked before; a failure is an answer, too.
  Result<Answer> Ask(int64_t run, const Handle& handle, int32_t device, const std::function<Result<Answer>()>& read);

 private:
  /// XLA lets a device get 32 programs ahead of another one.
  static constexpr size_t kMostRuns = 64;

  struct DatedAnswer {
    uint64_t since;  // number of the first question with this answer
    Result<Answer> answer;
  };
  /// The questions about one handle in one run.
  struct Asked {
    int64_t run;
    Handle handle;
    std::vector<std::pair<int32_t, uint64_t>> counts;  // number of questions of each device
    uint64_t most = 0;                                 // the largest of these numbers
    std::deque<DatedAnswer> answers;
  };

  Asked& Find(int64_t run, const Handle& handle) CALLOUT_REQUIRES(mutex_);
  void ForgetWhatAllHaveHeard(Asked& asked) const;

  const int64_t devices_;
  Mutex mutex_;
  std::deque<Asked> asked_ CALLOUT_GUARDED_BY(mutex_);  // in the order of their begin
  std::deque<int64_t> runs_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
