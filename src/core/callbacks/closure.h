// SPDX-License-Identifier: Apache-2.0
//
// A callout_closure as a Callback.
#pragma once

#include <memory>
#include <string>

#include "core/callbacks/callback.h"

namespace callout::internal {

/// Takes ownership of the closure's context if it succeeds: it is destroyed with the last reference to the callback.
/// InvalidArgument, and nothing is taken, if it is no closure. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeClosure(std::string label, const callout_closure& closure);

}  // namespace callout::internal
