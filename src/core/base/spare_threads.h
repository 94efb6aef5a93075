// SPDX-License-Identifier: Apache-2.0
//
// Threads for work that may take any time and must not wait behind other work.
#pragma once

#include <functional>

#include "callout/export.h"

namespace callout::internal {

/// Has `task` run at once, on a thread that has nothing else to do: one that ended a task in the last seconds, or a new
/// one. `task` must not throw. std::system_error if there can be no more threads. Thread-safe, also in a
/// forked child, which has threads of its own.
CALLOUT_EXPORT void RunOnSpareThread(std::function<void()> task);

/// Has each spare thread call `last` before it ends: what a task has made for its thread is given back there. `last`
/// must not throw. Thread-safe.
CALLOUT_EXPORT void AtEndOfSpareThreads(void (*last)());

}  // namespace callout::internal
