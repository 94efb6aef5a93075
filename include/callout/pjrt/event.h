// SPDX-License-Identifier: Apache-2.0
//
// Something that will have happened: a copy, a program's end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "callout/export.h"
#include "callout/pjrt/client.h"
#include "callout/pjrt/handle.h"
#include "callout/status.h"

namespace callout::pjrt {

/// Movable. Not thread-safe; different events may be used by different threads.
class CALLOUT_EXPORT Event {
 public:
  /// Takes ownership of `handle`. Null: has happened already, without an error.
  Event(std::shared_ptr<const Client> client, PJRT_Event* handle);

  /// Blocks until it has happened. Returns how it went. May be asked again.
  Status Wait();
  /// As Wait, but DeadlineExceeded after `timeout`; nothing is cancelled then, and it may be waited for again.
  Status WaitFor(std::chrono::nanoseconds timeout);
  /// Whether it has happened. Does not wait.
  Result<bool> IsReady() const;
  /// Calls `callback` when it has happened, on a thread of the plugin or at once on this one. The callback must
  /// neither block nor throw.
  Status OnReady(std::function<void(Status)> callback);

 private:
  const internal::PjrtApi& api() const;

  Handle<PJRT_Event> handle_;
};

}  // namespace callout::pjrt
