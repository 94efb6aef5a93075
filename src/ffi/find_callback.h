// SPDX-License-Identifier: Apache-2.0
//
// The callback that a call names, or brings along.
#pragma once

#include <memory>

#include "frame/ffi_abi.h"
#include "registry/callback.h"

namespace callout::internal {

/// Reads attributes `callback`, `names` and `library` of callout.v1.call. NotFound for a name that is not bound.
Result<std::shared_ptr<Callback>> FindCallback(const XLA_FFI_Attrs& attrs);

}  // namespace callout::internal
