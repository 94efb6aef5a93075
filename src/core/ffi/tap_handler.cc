// SPDX-License-Identifier: Apache-2.0
//
// Taps on CPU: the value is copied into its queue.
#include <span>

#include "core/base/small_buffer.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/run_context.h"
#include "core/delivery/delivery.h"
#include "core/ffi/deferral.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/handlers.h"
#include "core/ffi/tap_state.h"
#include "core/ffi/thread_token.h"
#include "core/frame/buffer.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"

namespace callout::internal {
namespace {

// `device` tells the ordinal. The runtime is asked for it, and for the run, only where a value goes further.
template <typename Device>
Status Push(XLA_FFI_CallFrame* frame, const TapState& state, std::span<const callout_buffer> args, Device device) {
  TapSite& site = state.site();
  TapOperands operands(site, args.size());
  CALLOUT_RETURN_IF_ERROR(operands.Split(site, args));
  if (site.inspector != nullptr && Delivery::Passes(site, operands.value())) return OkStatus();
  const int32_t device_ordinal = device();
  const Status status =
      Delivery::Get().Push(site, {.buffers = operands.value(),
                                  .device_ordinal = device_ordinal,
                                  .run_id = FindRun(RunId(frame)).id,
                                  .step = operands.step() ? FirstInteger(*operands.step()) : std::nullopt});
  if (status.ok()) [[likely]]
    return OkStatus();
  return Status(status.code(), DescribeFailure(*site.callback, device_ordinal, status));
}

Status ExecuteTap(XLA_FFI_CallFrame* frame, const TapState& state) {
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
  if (frame->rets.size == 0 && state.num_results() == 0) [[likely]]
    return Push(frame, state, args, [&] { return state.device(frame); });
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> results;
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers.data(), results));
  if (!results.empty()) CALLOUT_RETURN_IF_ERROR(CheckTapResults(results.size(), state));
  if (state.threaded()) CALLOUT_RETURN_IF_ERROR(PassToken(&args, &results));
  Status status = RunTap(frame, state, args, results, state.device(frame));
  if (state.deferred()) return Defer(status, results);
  return status;
}

}  // namespace

Status RunTap(XLA_FFI_CallFrame* frame, const TapState& state, std::span<const callout_buffer> args,
              std::span<const callout_buffer> results, int32_t device_ordinal) {
  if (!state.returned().empty()) {
    const callout_call call = BuffersOnly(args, results);
    CALLOUT_RETURN_IF_ERROR(state.returned().Check(call));
    state.returned().Apply(call);
  }
  return Push(frame, state, args, [=] { return device_ordinal; });
}

}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<TapState>(frame, ExecuteTap);
}
