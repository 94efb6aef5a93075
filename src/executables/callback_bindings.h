// SPDX-License-Identifier: Apache-2.0
//
// Binds the callbacks that are given to a compilation to what programs call them.
#pragma once

#include <span>

#include "callbacks/binding_scope.h"
#include "callout/pjrt/host_callback.h"

namespace callout::internal {

/// Binds by name, by place ("#0"), and by channels. InvalidArgument for two of one name.
Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks);

}  // namespace callout::internal
