// SPDX-License-Identifier: Apache-2.0
//
// The handlers behind the targets. They are `extern "C"`, so that a debugger and a profiler show them by name.
// src/core/attributes describes their attributes; scripts/write_attributes.py writes their names here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "callout/abi.h"
#include "core/base/small_buffer.h"
#include "core/frame/ffi_abi.h"

extern "C" {

/// callout.v1.call calls a callback: operands are its arguments, results its results.
/// Attributes of callout.v1.call: `callback`, `names`, `deferred`, `threaded`, `lane_dims`, `lane_masks`, `attributes`,
/// `aliases`, `library`, `host_callback`, `ordered`, `sharding`, `device_index`, `num_devices`.
/// callout.v1.buffer equals callout.v1.call on a CPU. On CUDA the callback gets the device's memory and stream.
/// Attributes of callout.v1.buffer: `callback`, `names`, `deferred`, `threaded`, `lane_dims`, `lane_masks`,
/// `attributes`, `aliases`, `library`, `host_callback`, `ordered`, `sharding`, `device_index`, `num_devices`, `graph`.
/// callout.v1.buffer_capturable, on CUDA only, is a callout.v1.buffer whose queued work XLA may capture and replay.
XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept;
/// callout.v1.call on CUDA: the callback gets copies on the host, see cuda/handlers/host_copies.h. XLA must not capture
/// the call.
XLA_FFI_Error* callout_v1_cuda_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_call_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_call_execute(XLA_FFI_CallFrame* frame) noexcept;

XLA_FFI_Error* callout_v1_cuda_buffer_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_buffer_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_buffer_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_buffer_capturable_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.tap sends a value: operands are the value; results are those that `returned`, `deferred` and `threaded`
/// add.
/// Attributes of callout.v1.tap: `callback`, `names`, `deferred`, `threaded`, `label`, `leaves`, `every`,
/// `min_interval_ns`, `on_full`, `step`, `rows`, `turns`, `hand_over`, `following`, `sample_ppb`, `only_device`,
/// `only_process`, `can_fail`, `offsets`, `returned`, `sharding`, `device_index`, `num_devices`.
XLA_FFI_Error* callout_v1_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept;
/// callout.v1.tap on CUDA. A failure that depends on the value (an inspector's, a full queue's) is found after the
/// program went on: the device's next tap or the next barrier reports the failure, and a `deferred` result is 0.
XLA_FFI_Error* callout_v1_cuda_tap_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_tap_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.check reports a deferred failure: operands are the status that `deferred` added, summed over the devices,
/// and values; results are the values. Fails if the status is not 0.
/// Attributes of callout.v1.check: `callback`.
XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept;
/// callout.v1.check on CUDA. XLA must not capture the check.
XLA_FFI_Error* callout_v1_cuda_check_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_check_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.read reads objects of the host: the operand is a handle, u32[4], or a batch of handles, u32[...,4]; the
/// results are the arrays of the object or objects. On CUDA the arrays are in the device's memory.
/// Attributes of callout.v1.read: `kind`, `devices`, `sharding`, `device_index`, `num_devices`.
XLA_FFI_Error* callout_v1_read_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_read_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_read_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_read_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_read_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.gathered_call makes one callout.v1.call for several devices, see ffi/gathering.h; the last operand is the
/// device's place among them.
/// Attributes of callout.v1.gathered_call: `callback`, `names`, `deferred`, `threaded`, `lane_dims`, `lane_masks`,
/// `attributes`, `aliases`, `library`, `host_callback`, `ordered`, `devices`, `caller`, `shards`.
XLA_FFI_Error* callout_v1_gathered_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_gathered_call_execute(XLA_FFI_CallFrame* frame) noexcept;
/// callout.v1.gathered_tap makes one callout.v1.tap for several devices; the last operand is the device's place.
/// Attributes of callout.v1.gathered_tap: `callback`, `names`, `deferred`, `threaded`, `label`, `leaves`, `every`,
/// `min_interval_ns`, `on_full`, `step`, `rows`, `turns`, `hand_over`, `following`, `sample_ppb`, `only_device`,
/// `only_process`, `can_fail`, `offsets`, `returned`, `devices`, `caller`, `shards`.
XLA_FFI_Error* callout_v1_gathered_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_gathered_tap_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.image launches a GPU kernel on CUDA, once or once for each lane of a batch. Operands are the arguments.
/// XLA may capture the queued work. callout.v1.image_sync waits for the launch and reports the device's errors.
/// Attributes of callout.v1.image: `callback`, `image`, `grid`, `block`, `shared_bytes`, `cooperative`, `fills_device`,
/// `cluster`, `dependent`, `priority`, `tensor_maps`, `parameter_bytes`, `parameter_block`, `pointers`, `aliases`,
/// `faults`, `lane_dims`, `lane_masks`.
XLA_FFI_Error* callout_v1_image_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_sync_execute(XLA_FFI_CallFrame* frame) noexcept;

}  // extern "C"

namespace callout::internal {

// The buffers of callout.v1.check, in any memory.

/// The buffers of one check. One thread.
struct CheckFrame {
  explicit CheckFrame(XLA_FFI_CallFrame* frame)
      : operands(static_cast<size_t>(frame->args.size)), outputs(static_cast<size_t>(frame->rets.size)) {}

  /// Decodes the buffers. InvalidArgument unless they are a status, values, and results of the values' sizes.
  Status Decode(XLA_FFI_CallFrame* frame);

  /// Copies the values to the results by `copy(to, from, bytes)`. XLA may put a value and its result into one buffer
  /// if nothing else reads the operand, which then needs no copy.
  template <typename Copy>
  Status PassOn(Copy&& copy) {
    for (size_t i = 0; i < results.size(); ++i) {
      const callout_buffer& from = args[i + 1];
      if (from.data == results[i].data || from.size_bytes == 0) continue;
      CALLOUT_RETURN_IF_ERROR(copy(results[i].data, from.data, from.size_bytes));
    }
    return OkStatus();
  }

  SmallBuffer<callout_buffer, 16> operands;
  SmallBuffer<callout_buffer, 8> outputs;
  std::span<const callout_buffer> args;
  std::span<const callout_buffer> results;
};

/// Returns the failure with the nonzero `number`, of the callback with the name `name` in programs. Thread-safe.
Status FailureOf(int32_t number, std::string_view name);

}  // namespace callout::internal
