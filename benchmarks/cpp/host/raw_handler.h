// SPDX-License-Identifier: Apache-2.0
//
// A C function that XLA calls directly: the peer that a callback is compared with.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace callout::bench {

/// Copies the f32 operand to the result and adds 1 to the first element.
XLA_FFI_Error* RawCopy(XLA_FFI_CallFrame* frame);

}  // namespace callout::bench
