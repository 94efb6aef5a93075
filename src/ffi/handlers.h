// SPDX-License-Identifier: Apache-2.0
//
// The handlers behind the targets. `extern "C"`, so that a debugger and a profiler show them by name.
#pragma once

#include "frame/ffi_abi.h"

extern "C" {

/// callout.v1.call: attribute `callback` (string), the name to look up. Operands are the arguments, results the
/// results.
XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.tap: attributes `callback` (string), and optionally `label` (string), `leaves` (string: names of the
/// operands, separated by newlines), `every` (s64), `min_interval_ns` (s64), `on_full` (s64, callout::OverflowPolicy).
/// Operands are the value; no results but tokens.
XLA_FFI_Error* callout_v1_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept;

}  // extern "C"
