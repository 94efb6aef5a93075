// SPDX-License-Identifier: Apache-2.0
//
// Taps on CUDA: the handler queues copies on the program's stream, and the program goes on. XLA must not capture a tap,
// because a replay would write to a slot that was taken once.
#include <span>

#include "core/base/small_buffer.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/run_context.h"
#include "core/ffi/handlers.h"
#include "core/ffi/tap_state.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"
#include "cuda/handlers/device_results.h"
#include "cuda/taps/device_taps.h"

namespace callout::internal {
namespace {

using cuda::CUstream;

// Calls `act` with the description of a tap's operands.
template <typename Act>
Status WithSending(XLA_FFI_CallFrame* frame, TapSite& site, CUstream stream, std::span<const callout_buffer> args,
                   Act&& act) {
  TapOperands operands(site, args.size());
  CALLOUT_RETURN_IF_ERROR(operands.Split(site, args));
  return act(DeviceSending{.buffers = operands.value(),
                           .step = operands.step(),
                           .stream = stream,
                           .device_ordinal = DeviceOrdinal(frame),
                           .run_id = FindRun(RunId(frame)).id});
}

Status Take(XLA_FFI_CallFrame* frame, const TapState& state, CUstream stream, std::span<const callout_buffer> args) {
  return state.WithSite([&](TapSite& site) {
    return WithSending(frame, site, stream, args,
                       [&](const DeviceSending& sending) { return DeviceTaps::Get().Take(site, sending); });
  });
}

Status ExecuteCudaTap(XLA_FFI_CallFrame* frame, const TapState& state) {
  const GpuScope gpu;
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
  CALLOUT_ASSIGN_OR_RETURN(void* const found, PlatformStream(frame));
  const auto stream = static_cast<CUstream>(found);
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> results;
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers.data(), results));
  if (!results.empty()) CALLOUT_RETURN_IF_ERROR(CheckTapResults(results.size(), state));
  if (results.empty() && state.num_results() == 0) return Take(frame, state, stream, args);
  CALLOUT_ASSIGN_OR_RETURN(const auto taps, DeviceTaps::Get().On(DeviceOrdinal(frame)));
  cuda::ContextScope current(taps->device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  if (state.threaded()) CALLOUT_RETURN_IF_ERROR(PassTokenOn(taps->device(), stream, &args, &results));
  CALLOUT_RETURN_IF_ERROR(CopyAliases(state.returned(), BuffersOnly(args, results), taps->device(), stream));
  Status status = Take(frame, state, stream, args);
  if (state.deferred()) return DeferOn(taps->device(), stream, status, results);
  return status;
}

// Allocates pinned memory and device memory, and loads code, before executions, so that none of them has to wait for
// that.
Status PrepareCudaTap(XLA_FFI_CallFrame* frame, const TapState& state, TapSite& site) {
  if (!site.senders.Admits(DeviceOrdinal(frame))) return OkStatus();  // This device sends nothing.
  CALLOUT_ASSIGN_OR_RETURN(const auto taps, DeviceTaps::Get().On(DeviceOrdinal(frame)));
  CALLOUT_RETURN_IF_ERROR(taps->Prepare(site.callback->worker()));
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
  if (state.threaded() && !args.empty()) args = args.subspan(1);  // Skips the token.
  // Ignores errors: the tap returns them if the program reaches it.
  static_cast<void>(WithSending(frame, site, nullptr, args, [&](const DeviceSending& sending) {
    taps->PrepareFor(site.callback->worker(), sending);
    return OkStatus();
  }));
  return OkStatus();
}

Status InitializeCudaTap(XLA_FFI_CallFrame* frame, const TapState& state) {
  NoteGpu(DeviceOrdinal(frame));
  return state.WithSite([&](TapSite& site) { return PrepareCudaTap(frame, state, site); });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // The handlers are C symbols.

XLA_FFI_Error* callout_v1_cuda_tap_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<TapState>(frame, InitializeCudaTap);
}

XLA_FFI_Error* callout_v1_cuda_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<TapState>(frame, ExecuteCudaTap);
}
