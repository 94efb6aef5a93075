// SPDX-License-Identifier: Apache-2.0
//
// Work on a stream besides launches: copies, fills, order and news for the host; and work that is recorded once and
// launched many times. The device's context is current. Thread-safe. GIL not needed.
#pragma once

#include <cstdint>
#include <string_view>

#include "callout/export.h"
#include "cuda/driver/handle.h"
#include "cuda/driver/resources.h"

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

CALLOUT_EXPORT Status CopyToHost(const Device& device, CUstream stream, void* to, CUdeviceptr from, size_t bytes,
                                 std::string_view subject = {});
CALLOUT_EXPORT Status CopyToDevice(const Device& device, CUstream stream, CUdeviceptr to, const void* from,
                                   size_t bytes, std::string_view subject = {});

CALLOUT_EXPORT Status FillWithZeros(const Device& device, CUstream stream, CUdeviceptr to, size_t bytes,
                                    std::string_view subject = {});
/// A number of 32 bits. A recording keeps the number itself.
CALLOUT_EXPORT Status SetNumber(const Device& device, CUstream stream, CUdeviceptr to, uint32_t number);

/// Marks a place of the stream by the event.
CALLOUT_EXPORT Status Record(const Device& device, const Event& event, CUstream stream);
/// True if everything before the event's place has run. An error of earlier work arrives here.
CALLOUT_EXPORT Result<bool> IsDone(const Device& device, const Event& event);
/// Has what `after` gets from now on run after what `before` has. Nobody else uses the event meanwhile.
CALLOUT_EXPORT Status Order(const Device& device, const Event& event, CUstream before, CUstream after);

/// Queues that the number at `at` becomes `number`: who sees it sees what the stream did before. False, and nothing
/// queued, where the device has no writes of streams.
CALLOUT_EXPORT Result<bool> Publish(const Device& device, CUstream stream, CUdeviceptr at, uint32_t number);
/// Queues a call of `function`, which must not call the driver.
CALLOUT_EXPORT Status CallOnHost(const Device& device, CUstream stream, CUhostFn function, void* user_data);

}  // namespace callout::internal::cuda
