// SPDX-License-Identifier: Apache-2.0
//
// Whether native code that programs carry may be loaded: shared libraries (embedded_library.h) and images of GPU
// kernels. SECURITY.md says what loading means.
#pragma once

#include <string>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// Sets what holds in this process for programs whose compilation says nothing else (BindingScope::SetEmbeddedCode).
/// At first the environment variable CALLOUT_EMBEDDED_CODE says it; code is allowed where the variable is not set, and
/// refused where its text is not understood. Thread-safe.
CALLOUT_EXPORT void AllowEmbeddedCode(bool allow);

/// FailedPrecondition if this thread's compilation, or else the process, refuses code that programs carry. `what`: "the
/// native function 'f'". Thread-safe.
CALLOUT_EXPORT Status CheckEmbeddedCode(const std::string& what);

}  // namespace callout::internal
