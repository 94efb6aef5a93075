// SPDX-License-Identifier: Apache-2.0
//
// Events, such as the end of a copy or of a program.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "callout/export.h"
#include "callout/pjrt/client.h"
#include "callout/pjrt/handle.h"
#include "callout/status.h"

namespace callout::pjrt {

/// An event of the plugin. Movable. Not thread-safe; different events may be used by different threads.
class CALLOUT_EXPORT Event {
 public:
  /// Wraps a handle of the plugin. Takes ownership of `handle`. A null handle is an event that was set without an
  /// error.
  Event(std::shared_ptr<const Client> client, PJRT_Event* handle);

  /// Blocks until the event is set, and returns its status. May be called again.
  Status Wait();
  /// Blocks until the event is set or `timeout` has passed, and then returns DeadlineExceeded. A timeout cancels
  /// nothing, and the caller may wait again.
  Status WaitFor(std::chrono::nanoseconds timeout);
  /// Returns whether the event is set. Does not block.
  Result<bool> IsReady() const;
  /// Calls `callback` when the event is set, on a thread of the plugin or at once on this one. The callback must
  /// neither block nor throw.
  Status OnReady(std::function<void(Status)> callback);

 private:
  const internal::PjrtApi& api() const;

  Handle<PJRT_Event> handle_;
};

}  // namespace callout::pjrt
