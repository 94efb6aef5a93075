// SPDX-License-Identifier: Apache-2.0
//
// The FFI targets of this library. Their names and attributes are frozen (docs/abi.md): programs that one release
// exports load in later ones.
#pragma once

#include <span>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

struct Target {
  const char* name;
  const char* platform;
  // Each is an XLA_FFI_Handler*.
  void* instantiate = nullptr;  ///< Null if the target has no state.
  void* initialize = nullptr;   ///< Null if nothing must be prepared before a capture.
  void* execute = nullptr;
};

/// Returns all targets. Thread-safe.
CALLOUT_EXPORT std::span<const Target> Targets();

}  // namespace callout::internal

struct XLA_FFI_Api;

namespace callout::internal {

/// Returns the handler to register with the plugin, an XLA_FFI_Handler*. The handler is never executed.
CALLOUT_EXPORT void* BootstrapHandler();

/// Registers all targets, and the targets of JAX's own callbacks, with the runtime that last read the metadata of
/// BootstrapHandler on this thread, and forgets that runtime. Returns its table, which stays until the process ends.
/// FailedPrecondition if no runtime did so.
CALLOUT_EXPORT Result<const XLA_FFI_Api*> RegisterTargetsWithRuntime();

}  // namespace callout::internal
