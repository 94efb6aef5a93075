// SPDX-License-Identifier: Apache-2.0
//
// Binds the callbacks that a compilation is given to the names by which programs call them.
#pragma once

#include <span>

#include "callout/pjrt/executable.h"
#include "callout/pjrt/host_callback.h"
#include "core/callbacks/binding_scope.h"

namespace callout::internal {

/// Binds each callback by its name, by its position ("#0"), and by its channels. InvalidArgument for two of one name.
Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks);

/// FailedPrecondition if a call that JAX lowered has results and is bound to a callback that takes taps only. Callout's
/// own calls are checked when the program is loaded; JAX's calls may be debug callbacks, which are taps.
Status CheckJaxCalls(const pjrt::LoadedExecutable& executable, const Bindings& bindings);

}  // namespace callout::internal
