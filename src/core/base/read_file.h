// SPDX-License-Identifier: Apache-2.0
//
// A whole file as bytes.
#pragma once

#include <string>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// All bytes of a file. Errors: PermissionDenied, NotFound: "callout: cannot read WHAT 'PATH': why". Thread-safe.
CALLOUT_EXPORT Result<std::string> ReadFile(const std::string& path, const std::string& what);

}  // namespace callout::internal
