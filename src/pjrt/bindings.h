// SPDX-License-Identifier: Apache-2.0
//
// The callbacks that are given to a compilation, by what programs call them.
#pragma once

#include <span>

#include "callout/pjrt/host_callback.h"
#include "registry/binding_scope.h"

namespace callout::internal {

/// By name, by place ("#0"), and by channels. InvalidArgument for two of one name.
Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks);

}  // namespace callout::internal
