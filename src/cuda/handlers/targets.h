// SPDX-License-Identifier: Apache-2.0
//
// The FFI targets of this library. Names and attributes are frozen (docs/abi.md): programs exported by one release load
// in later ones.
#pragma once

#include <span>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

struct Target {
  const char* name;
  const char* platform;
  // Each is an XLA_FFI_Handler*.
  void* instantiate = nullptr;  ///< Null for a target without state.
  void* initialize = nullptr;   ///< Null where nothing is to be made ready before a capture.
  void* execute = nullptr;
};

/// All targets. Thread-safe.
CALLOUT_EXPORT std::span<const Target> Targets();

}  // namespace callout::internal

struct XLA_FFI_Api;

namespace callout::internal {

/// The handler to register with the plugin, an XLA_FFI_Handler*. It is never executed.
CALLOUT_EXPORT void* BootstrapHandler();

/// Registers all targets, and what JAX's own callbacks call, with the runtime that last asked, on this thread, for the
/// metadata of BootstrapHandler, and forgets it. Returns its table, which is there until the process ends.
/// FailedPrecondition if none did.
CALLOUT_EXPORT Result<const XLA_FFI_Api*> RegisterTargetsWithRuntime();

}  // namespace callout::internal
