// SPDX-License-Identifier: Apache-2.0
//
// Attribute `graph` of callout.v1.buffer: the work that a callback queues on a device is recorded once for each set of
// buffers, and from then on launched without the callback.
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
  /// Recordings that are kept; programs use few sets of buffers in turn, and XLA keeps as many of its own.
  static constexpr size_t kMost = 16;

  /// `device` outlives it.
  explicit RecordedCalls(const cuda::Device& device) : device_(device) {}

  /// Does what `callback` does for this call, on the call's stream. The first call runs the callback as it is, so that
  /// it can compile and load what it launches; a later one records if there is no recording for its buffers, and, where
  /// as many are kept as may be, gives what it recorded to the executable that was used least recently. The device's
  /// context is current.
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
  Mutex mutex_;  // also of the launches: an executable is for one thread at a time
  bool has_run_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::vector<cuda::Stream> streams_ CALLOUT_GUARDED_BY(mutex_);  // to record on
  std::list<Recording> recordings_ CALLOUT_GUARDED_BY(mutex_);    // the last used one first
};

/// (calls that were recorded, launches of recordings), since the start. Thread-safe.
CALLOUT_EXPORT std::pair<int64_t, int64_t> RecordedCallCounts();

}  // namespace callout::internal
