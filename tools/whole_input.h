// SPDX-License-Identifier: Apache-2.0
//
// Reads all bytes of a file or of standard input.
#pragma once

#include <string>

#include "callout/status.h"

namespace callout::tools {

/// Reads a file. Errors: PermissionDenied and NotFound: "callout: cannot read WHAT 'PATH': why". Thread-safe.
Result<std::string> ReadFile(const std::string& path, const std::string& what);

/// Blocks until the end of standard input. Errors: InvalidArgument, with the reason.
Result<std::string> ReadStandardInput();

}  // namespace callout::tools
