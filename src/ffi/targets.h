// SPDX-License-Identifier: Apache-2.0
//
// The FFI targets of this library. Names and attributes are frozen (docs/abi.md): programs exported by one release load
// in later ones.
#pragma once

#include <span>

#include "callout/export.h"

namespace callout::internal {

struct Target {
  const char* name;
  const char* platform;
  void* instantiate;  ///< XLA_FFI_Handler*, null for a target without state
  void* execute;      ///< XLA_FFI_Handler*
};

/// All targets. Thread-safe.
CALLOUT_EXPORT std::span<const Target> Targets();

}  // namespace callout::internal
