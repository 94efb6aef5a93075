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

/// callout.v1.call: operands are the arguments, results the results.
/// Attributes of callout.v1.call: `callback`, `names`, `deferred`, `threaded`, `lane_dims`, `lane_masks`, `attributes`,
/// `aliases`, `library`, `host_callback`, `ordered`, `sharding`, `device_index`, `num_devices`.
/// callout.v1.buffer is the same on a CPU. On CUDA the callback gets the device's memory and stream.
/// Attributes of callout.v1.buffer: `callback`, `names`, `deferred`, `threaded`, `lane_dims`, `lane_masks`,
/// `attributes`, `aliases`, `library`, `host_callback`, `ordered`, `sharding`, `device_index`, `num_devices`, `graph`.
/// callout.v1.buffer_capturable, on CUDA only, is the same, and XLA may capture what the callback queues and replay it.
XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept;
/// On CUDA: the callback gets copies on the host, see cuda/handlers/host_copies.h. Not to be captured.
XLA_FFI_Error* callout_v1_cuda_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_call_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_call_execute(XLA_FFI_CallFrame* frame) noexcept;

XLA_FFI_Error* callout_v1_cuda_buffer_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_buffer_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_buffer_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_buffer_capturable_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.tap: operands are the value; no results but tokens and what `deferred` and `threaded` add.
/// Attributes of callout.v1.tap: `callback`, `names`, `deferred`, `threaded`, `label`, `leaves`, `every`,
/// `min_interval_ns`, `on_full`, `step`, `sample_ppb`, `only_device`, `only_process`, `can_fail`, `offsets`,
/// `returned`, `sharding`, `device_index`, `num_devices`.
XLA_FFI_Error* callout_v1_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept;
/// The same on CUDA. A failure that needs the value (an inspector's, a full queue's) is found after the program went
/// on: the device's next tap fails with it, or the next barrier. With `deferred` the result is 0 then.
XLA_FFI_Error* callout_v1_cuda_tap_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_tap_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.check: operands are what `deferred` gave, summed over the devices, and values; results are the values.
/// Fails if the first is not 0.
/// Attributes of callout.v1.check: `callback`.
XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept;
/// The same on CUDA. Not to be captured.
XLA_FFI_Error* callout_v1_cuda_check_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_check_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.gathered_call: callout.v1.call for devices that come together, see ffi/gathering.h; the last operand is
/// the device's place among them.
/// Attributes of callout.v1.gathered_call: `callback`, `names`, `deferred`, `threaded`, `lane_dims`, `lane_masks`,
/// `attributes`, `aliases`, `library`, `host_callback`, `ordered`, `devices`, `caller`, `shards`.
XLA_FFI_Error* callout_v1_gathered_call_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_gathered_call_execute(XLA_FFI_CallFrame* frame) noexcept;
/// callout.v1.gathered_tap: callout.v1.tap, likewise.
/// Attributes of callout.v1.gathered_tap: `callback`, `names`, `deferred`, `threaded`, `label`, `leaves`, `every`,
/// `min_interval_ns`, `on_full`, `step`, `sample_ppb`, `only_device`, `only_process`, `can_fail`, `offsets`,
/// `returned`, `devices`, `caller`, `shards`.
XLA_FFI_Error* callout_v1_gathered_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_gathered_tap_execute(XLA_FFI_CallFrame* frame) noexcept;

/// callout.v1.image, on CUDA: one launch, of a batch one launch a lane. Operands are the arguments. What it queues may
/// be captured. callout.v1.image_sync waits for the launch and reports what the device reported.
/// Attributes of callout.v1.image: `callback`, `image`, `grid`, `block`, `shared_bytes`, `cooperative`, `fills_device`,
/// `cluster`, `dependent`, `priority`, `tensor_maps`, `parameter_bytes`, `parameter_block`, `pointers`, `aliases`,
/// `faults`, `lane_dims`, `lane_masks`.
XLA_FFI_Error* callout_v1_image_instantiate(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_initialize(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_execute(XLA_FFI_CallFrame* frame) noexcept;
XLA_FFI_Error* callout_v1_image_sync_execute(XLA_FFI_CallFrame* frame) noexcept;

}  // extern "C"

namespace callout::internal {

// What callout.v1.check is called with, wherever its buffers are.

/// The buffers of one check. One thread.
struct CheckFrame {
  explicit CheckFrame(XLA_FFI_CallFrame* frame)
      : operands(static_cast<size_t>(frame->args.size)), outputs(static_cast<size_t>(frame->rets.size)) {}

  /// InvalidArgument unless they are a status, values, and results like those.
  Status Decode(XLA_FFI_CallFrame* frame);

  /// Has `copy(to, from, bytes)` make results of the values. XLA lets a value and its result be one buffer where
  /// nothing else reads the operand.
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

/// The failure of this number, which is not 0, of the callback that programs call `name`. Thread-safe.
Status FailureOf(int32_t number, std::string_view name);

}  // namespace callout::internal
