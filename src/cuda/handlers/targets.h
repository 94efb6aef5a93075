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
  // Each is an XLA_FFI_Handler*.
  void* instantiate = nullptr;  ///< Null for a target without state.
  void* initialize = nullptr;   ///< Null where nothing is to be made ready before a capture.
  void* execute = nullptr;
};

/// All targets. Thread-safe.
CALLOUT_EXPORT std::span<const Target> Targets();

}  // namespace callout::internal
