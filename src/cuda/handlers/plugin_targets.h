// SPDX-License-Identifier: Apache-2.0
//
// How a PJRT plugin's runtime gets our targets. The plugin's own interface registers one function, and says that it did
// whatever happened; but it asks that function for its metadata, and the question carries the table with which
// everything else can be registered, and with which refusals are heard.
#pragma once

#include "callout/export.h"
#include "callout/status.h"

struct XLA_FFI_Api;

namespace callout::internal {

/// The handler to register with the plugin, an XLA_FFI_Handler*. It is never executed.
CALLOUT_EXPORT void* BootstrapHandler();

/// Registers all targets, and what JAX's own callbacks call, with the runtime that last asked, on this thread, for the
/// metadata of BootstrapHandler, and forgets it. Returns its table, which is there until the process ends.
/// FailedPrecondition if none did.
CALLOUT_EXPORT Result<const XLA_FFI_Api*> RegisterTargetsWithRuntime();

}  // namespace callout::internal
