// SPDX-License-Identifier: Apache-2.0
//
// Callout's FFI targets in a plugin's runtime.
#pragma once

#include <string>

#include "pjrt/pjrt_abi.h"

namespace callout::internal {

/// Registers the targets with the runtime behind `api`, once a table. `plugin` is what errors call it. Errors:
/// FailedPrecondition if it is of another major version, has no FFI extension, or does not take handlers; else the
/// plugin's own. Thread-safe.
Status AttachTargets(const PjrtApi& api, const std::string& plugin);

}  // namespace callout::internal
