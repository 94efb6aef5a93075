// SPDX-License-Identifier: Apache-2.0
//
// The callback that a call names, or brings along.
#pragma once

#include <memory>

#include "attributes/call_attributes.h"
#include "registry/callback.h"

namespace callout::internal {

/// NotFound for a name that is not bound.
Result<std::shared_ptr<Callback>> FindCallback(const CallAttributes& attributes);

}  // namespace callout::internal
