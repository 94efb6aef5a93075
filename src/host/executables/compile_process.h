// SPDX-License-Identifier: Apache-2.0
//
// The asking side of callout/pjrt/compile_process.h.
#pragma once

#include <string>

#include "callout/pjrt/executable.h"
#include "host/executables/compile_request.h"

namespace callout::internal {

/// What `process` makes of `request`: bytes for Compiler::Load. `what` names the program in errors. Errors: those of
/// the compilation there; NotFound if the process cannot be started; Internal if a signal ends it, or it does not
/// answer; DeadlineExceeded. Thread-safe.
Result<std::string> CompileElsewhere(const pjrt::CompileProcess& process, const CompileRequest& request,
                                     const std::string& what);

}  // namespace callout::internal
