// SPDX-License-Identifier: Apache-2.0
//
// A call that XLA makes of a C function directly: what a callback is compared with.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace callout::bench {

/// Result = operand, and 1 more in the first element. For f32.
XLA_FFI_Error* RawCopy(XLA_FFI_CallFrame* frame);

}  // namespace callout::bench
