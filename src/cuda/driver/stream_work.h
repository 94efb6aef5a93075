// SPDX-License-Identifier: Apache-2.0
//
// Work on a stream besides launches: copies, fills, ordering and notifications of the host; and graphs, which are
// captured once and launched many times. Requires that the device's context is current. Thread-safe. GIL not needed.
#pragma once

#include <cstdint>
#include <string_view>

#include "callout/export.h"
#include "cuda/driver/handle.h"
#include "cuda/driver/resources.h"

namespace callout::internal::cuda {

/// Captures the work that this thread queues on a stream, from Begin() to End(). Meanwhile the thread must not
/// allocate, wait or load code: such a call fails, and invalidates the capture. Must be used by one thread only.
class StreamCapture {
 public:
  CALLOUT_EXPORT static Result<StreamCapture> Begin(const Device& device, CUstream stream);
  StreamCapture(StreamCapture&& other) noexcept
      : device_(other.device_), stream_(other.stream_), active_(std::exchange(other.active_, false)) {}
  StreamCapture& operator=(StreamCapture&&) = delete;
  /// Discards the captured work if End() was not called.
  CALLOUT_EXPORT ~StreamCapture();

  /// Returns the captured work. May be called once.
  CALLOUT_EXPORT Result<Graph> End();

 private:
  StreamCapture(const Device& device, CUstream stream) : device_(&device), stream_(stream) {}

  const Device* device_;
  CUstream stream_;
  bool active_ = true;
};

/// Thread-safe. GIL not needed.
CALLOUT_EXPORT Result<GraphExec> Instantiate(const Device& device, const Graph& graph);

/// Queues all work of `executable` on `stream`.
CALLOUT_EXPORT Status Launch(const Device& device, const GraphExec& executable, CUstream stream);

/// Replaces the parameters of `executable` by those of `graph`. FailedPrecondition if the graphs differ otherwise.
CALLOUT_EXPORT Status Update(const Device& device, const GraphExec& executable, const Graph& graph);

CALLOUT_EXPORT Status CopyToHost(const Device& device, CUstream stream, void* to, CUdeviceptr from, size_t bytes,
                                 std::string_view subject = {});
CALLOUT_EXPORT Status CopyToDevice(const Device& device, CUstream stream, CUdeviceptr to, const void* from,
                                   size_t bytes, std::string_view subject = {});

CALLOUT_EXPORT Status FillWithZeros(const Device& device, CUstream stream, CUdeviceptr to, size_t bytes,
                                    std::string_view subject = {});
/// Queues a write of a 32-bit number. A capture keeps the number itself.
CALLOUT_EXPORT Status SetNumber(const Device& device, CUstream stream, CUdeviceptr to, uint32_t number);

/// Queues a record of the event on the stream.
CALLOUT_EXPORT Status Record(const Device& device, const Event& event, CUstream stream);
/// Returns whether everything before the record of the event has run. Also returns errors of work that was queued
/// earlier.
CALLOUT_EXPORT Result<bool> IsDone(const Device& device, const Event& event);
/// Makes later work on `after` run after the current work on `before`. Nobody else may use the event meanwhile.
CALLOUT_EXPORT Status Order(const Device& device, const Event& event, CUstream before, CUstream after);

/// Queues a write of `number` to `at`: a reader that sees the number sees all earlier work of the stream. Returns
/// false, and queues nothing, if the device's streams cannot write values.
CALLOUT_EXPORT Result<bool> Publish(const Device& device, CUstream stream, CUdeviceptr at, uint32_t number);
/// Queues a call of `function`, which must not call the driver.
CALLOUT_EXPORT Status CallOnHost(const Device& device, CUstream stream, CUhostFn function, void* user_data);

}  // namespace callout::internal::cuda
