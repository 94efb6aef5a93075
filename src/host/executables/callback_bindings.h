// SPDX-License-Identifier: Apache-2.0
//
// Binds the callbacks that are given to a compilation to what programs call them.
#pragma once

#include <span>

#include "callout/pjrt/executable.h"
#include "callout/pjrt/host_callback.h"
#include "core/callbacks/binding_scope.h"

namespace callout::internal {

/// Binds by name, by place ("#0"), and by channels. InvalidArgument for two of one name.
Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks);

/// FailedPrecondition if a call that JAX lowered returns something, and is bound to what takes taps only. Calls of
/// Callout's own are checked where the program is loaded; those of JAX's may be debug callbacks, which are taps.
Status CheckJaxCalls(const pjrt::LoadedExecutable& executable, const Bindings& bindings);

}  // namespace callout::internal
