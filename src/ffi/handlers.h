// SPDX-License-Identifier: Apache-2.0
//
// The handlers behind the targets. `extern "C"`, so that a debugger and a profiler show them by name.
#pragma once

#include "frame/ffi_abi.h"

extern "C" {

/// callout.v1.call: attribute `callback` (string), the name to look up. Operands are the arguments, results the
/// results. Optional attributes:
///   `attributes` (dictionary): constants for the callback.
///   `ordered` (s64): 1 waits for the delivery of the device's earlier taps.
///   `deferred` (s64): 1 adds a last result, s32[], and never fails: that result is 0 or the number of the failure, see
///   registry/failures.h.
///   `threaded` (s64): 1 adds a first operand and a first result, u32[], a token that is copied and is no part of the
///   call: programs order their calls by it.
///   `lane_dims`, `lane_masks`: one call a lane of a batch, see ffi/lanes.h.
///   `aliases`: results that are updated in place, see ffi/aliases.h.
///   `library` (dictionary of strings): the function comes with the program, and `callback` is only what it is called,
///   see registry/embedded_library.h.
/// callout.v1.buffer is the same on a CPU. On CUDA the callback gets the device's memory and stream:
/// callout.v1.buffer without `ordered`, `threaded` and lanes, and with
///   `graph` (s64): 1 records what the callback queues, once for each set of buffers, see ffi/recorded_calls.h.
/// callout.v1.buffer_capturable, on CUDA only, is the same, and XLA may capture what the callback queues and replay it.
XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept;
/// On CUDA: the callback gets copies on the host, see ffi/host_copies.h. Not to be captured.
XLA_FFI_Error* callout_v1_cuda_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_call_execute(XLA_FFI_CallFrame* frame) noexcept;

XLA_FFI_Error* callout_v1_cuda_buffer_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_buffer_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_buffer_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_buffer_capturable_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.tap: attributes `callback` (string), and optionally `label` (string), `leaves` (string: names of the
/// operands, separated by newlines), `every` (s64), `min_interval_ns` (s64), `on_full` (s64, callout::OverflowPolicy),
/// `deferred` and `threaded` (as above), `offsets` (s64: 1 adds a last operand, s64[n], where in the whole value this
/// shard begins, for all dimensions of all operands in turn). Operands are the value; no results but tokens and what
/// `deferred` and `threaded` add.
XLA_FFI_Error* callout_v1_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept;
/// The same on CUDA. A failure that needs the value (an inspector's, a full queue's) is found after the program went
/// on: the device's next tap fails with it, or the next barrier. With `deferred` the result is 0 then.
XLA_FFI_Error* callout_v1_cuda_tap_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_tap_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.check: operands are what `deferred` gave, summed over the devices, and values; results are the values.
/// Fails if the first is not 0. Attribute `callback`, as above.
XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept;
/// On CUDA. Not to be captured.
XLA_FFI_Error* callout_v1_cuda_check_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.image, on CUDA: attributes as in ffi/image_attributes.h, and `aliases`, `lane_dims` and `lane_masks` as
/// above: one launch a lane. Operands are the arguments, results the results. What it queues may be captured.
/// callout.v1.image_sync waits for the launch and reports what the device reported.
XLA_FFI_Error* callout_v1_image_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_sync_execute(XLA_FFI_CallFrame* frame) noexcept;

}  // extern "C"
