// SPDX-License-Identifier: Apache-2.0
//
// The threads that XLA computes with, lent to a handler for the length of its call.
#pragma once

#include <cstdint>
#include <functional>

#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// How many threads the pool of this call has; 0 where the runtime lends none.
int64_t PoolThreads(XLA_FFI_CallFrame* frame);

/// Has `task` run once, on a thread of the pool, or by this thread before this returns. It may run after the handler
/// has returned. Drops it, and returns an error, where there is no pool. `task` must not throw. Only the handler's own
/// thread may call this.
Status ScheduleOnPool(XLA_FFI_CallFrame* frame, std::function<void()> task);

}  // namespace callout::internal
