// SPDX-License-Identifier: Apache-2.0
//
// Work that is recorded once and launched many times.
#pragma once

#include "callout/export.h"
#include "cuda/driver/handle.h"

namespace callout::internal::cuda {

/// Records what this thread queues on a stream, from Begin() to End(). Meanwhile the thread must not allocate, wait or
/// load code: such a call fails, and with it the recording. For the thread that made it.
class StreamCapture {
 public:
  CALLOUT_EXPORT static Result<StreamCapture> Begin(const Device& device, CUstream stream);
  StreamCapture(StreamCapture&& other) noexcept
      : device_(other.device_), stream_(other.stream_), active_(std::exchange(other.active_, false)) {}
  StreamCapture& operator=(StreamCapture&&) = delete;
  /// Drops what was recorded, if End() was not called.
  CALLOUT_EXPORT ~StreamCapture();

  /// Once.
  CALLOUT_EXPORT Result<Graph> End();

 private:
  StreamCapture(const Device& device, CUstream stream) : device_(&device), stream_(stream) {}

  const Device* device_;
  CUstream stream_;
  bool active_ = true;
};

/// Thread-safe. GIL not needed.
CALLOUT_EXPORT Result<GraphExec> Instantiate(const Device& device, const Graph& graph);

/// Queues everything that `executable` holds on `stream`.
CALLOUT_EXPORT Status Launch(const Device& device, const GraphExec& executable, CUstream stream);

/// Gives `executable` the parameters of `graph`. FailedPrecondition if they differ in more than those.
CALLOUT_EXPORT Status Update(const Device& device, const GraphExec& executable, const Graph& graph);

}  // namespace callout::internal::cuda
