// SPDX-License-Identifier: Apache-2.0
//
// XLA's call frame as the C view that callbacks get. Tokens carry no data and are left out.
#pragma once

#include <span>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Writes the data buffers of `args` to `out`, which has room for `args.size`; `decoded` are those. InvalidArgument for
/// an element type that is not known, of which nobody could say how many bytes it has.
/// Borrowed: `out` is valid until the handler returns.
Status DecodeArgs(const XLA_FFI_Args& args, callout_buffer* out, std::span<const callout_buffer>& decoded);
Status DecodeRets(const XLA_FFI_Rets& rets, callout_buffer* out, std::span<const callout_buffer>& decoded);

/// Both, as the operands and the results of `call`.
Status DecodeFrame(const XLA_FFI_CallFrame& frame, callout_buffer* args, callout_buffer* results, callout_call& call);

}  // namespace callout::internal
