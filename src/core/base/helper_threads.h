// SPDX-License-Identifier: Apache-2.0
//
// Helper threads, for tasks that may take any time and must not wait behind other tasks.
#pragma once

#include <functional>

#include "callout/export.h"

namespace callout::internal {

/// Runs `task` at once on an idle thread: one that finished a task in the last seconds, or a new one. `task` must not
/// throw. std::system_error if no thread can be created. Thread-safe, also in a forked child, which has threads of its
/// own.
CALLOUT_EXPORT void RunOnHelperThread(std::function<void()> task);

/// Makes each helper thread call `last` before it ends, to release resources that tasks have made for their thread.
/// `last` must not throw. Thread-safe.
CALLOUT_EXPORT void AtEndOfHelperThreads(void (*last)());

}  // namespace callout::internal
