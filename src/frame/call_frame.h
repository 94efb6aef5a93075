// SPDX-License-Identifier: Apache-2.0
//
// XLA's call frame as the C view that callbacks get. Tokens carry no data and are left out.
#pragma once

#include "callout/abi.h"
#include "frame/ffi_abi.h"

namespace callout::internal {

/// Writes the data buffers of `args` to `out`, which has room for `args.size`. Returns how many there are.
/// Borrowed: `out` is valid until the handler returns.
uint32_t DecodeArgs(const XLA_FFI_Args& args, callout_buffer* out);
uint32_t DecodeRets(const XLA_FFI_Rets& rets, callout_buffer* out);

}  // namespace callout::internal
