// SPDX-License-Identifier: Apache-2.0
//
// One core in a process: two would register the same FFI targets and keep two queues, two registries, two exit hooks.
#pragma once

#include "callout/status.h"

namespace callout::internal {

/// FailedPrecondition, naming both files, if another libcallout was loaded into this process before this one.
/// Thread-safe.
CALLOUT_EXPORT Status CheckOnlyCore();

}  // namespace callout::internal
