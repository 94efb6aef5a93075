// SPDX-License-Identifier: Apache-2.0
//
// Registers Callout's FFI targets in a plugin's runtime.
#pragma once

#include <string>

#include "host/pjrt/pjrt_abi.h"

struct XLA_FFI_Api;

namespace callout::internal {

/// Registers the targets with the runtime behind `api`, once for each table, and returns the runtime's own table.
/// Errors call the plugin `plugin`. Errors: FailedPrecondition if the plugin is of another major version, has no FFI
/// extension, or does not take handlers; else the plugin's own. Thread-safe.
Result<const XLA_FFI_Api*> AttachTargets(const PjrtApi& api, const std::string& plugin);

}  // namespace callout::internal
