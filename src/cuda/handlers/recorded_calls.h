// SPDX-License-Identifier: Apache-2.0
//
// The attribute `graph` of callout.v1.buffer: the work that a callback queues on a device is captured once for each set
// of buffers, and later launched without the callback.
#pragma once

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"
#include "cuda/driver/stream_work.h"

namespace callout::internal {

/// The recordings of a call site on one device. Thread-safe. GIL not needed.
class RecordedCalls {
 public:
  /// The number of recordings that are kept. A program alternates between few sets of buffers; XLA keeps as many
  /// command buffers.
  static constexpr size_t kMost = 16;

  /// Borrowed: `device` must outlive this object.
  explicit RecordedCalls(const cuda::Device& device) : device_(device) {}

  /// Does the work of `callback` for this call, on the call's stream. Requires that the device's context is current.
  /// 1. The first call runs the callback without recording, so that the callback can compile and load what it launches.
  /// 2. A later call launches the recording for its buffers, if there is one.
  /// 3. Otherwise it records the callback. If kMost recordings exist, the least recently used executable is updated.
  Status Call(Callback& callback, const callout_call& call);

 private:
  struct Recording {
    std::vector<const void*> addresses;
    cuda::GraphExec executable;
  };

  Status Launch(const Recording& recording, const callout_call& call) CALLOUT_REQUIRES(mutex_);
  Result<cuda::Graph> Record(Callback& callback, const callout_call& call);
  Result<cuda::GraphExec> MakeExecutable(const cuda::Graph& graph);
  Result<cuda::Stream> TakeStream();

  const cuda::Device& device_;
  Mutex mutex_;  // Held during launches, too: an executable must not be used by two threads at a time.
  bool has_run_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::vector<cuda::Stream> streams_ CALLOUT_GUARDED_BY(mutex_);  // For recording.
  std::list<Recording> recordings_ CALLOUT_GUARDED_BY(mutex_);    // The last used recording comes first.
};

/// Returns the numbers of recorded calls and of launched recordings since the start. Thread-safe.
CALLOUT_EXPORT std::pair<int64_t, int64_t> RecordedCallCounts();

}  // namespace callout::internal
