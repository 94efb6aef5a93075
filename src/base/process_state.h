// SPDX-License-Identifier: Apache-2.0
//
// The two facts about the process that every thread, queue and destructor asks for: has exit begun, and is this a
// forked child. Neither the Python interpreter nor our threads may be touched after the one, nor in the other.
#pragma once

#include "callout/export.h"

namespace callout::internal {

/// True once exit has begun. One atomic load. Thread-safe.
CALLOUT_EXPORT bool ProcessIsExiting();

/// Called by the exit hook, before threads are forbidden. Thread-safe.
CALLOUT_EXPORT void SetProcessIsExiting(bool exiting);

/// True in a child of a process that had loaded this library: its threads did not come along. Thread-safe.
CALLOUT_EXPORT bool ProcessIsForkedChild();

}  // namespace callout::internal
