// SPDX-License-Identifier: Apache-2.0
//
// Calls and taps for which the devices of a program come together.
#include <memory>
#include <span>
#include <string>

#include "attributes/decode.h"
#include "base/small_buffer.h"
#include "ffi/call_site.h"
#include "ffi/deferral.h"
#include "ffi/failed_run.h"
#include "ffi/gathering.h"
#include "ffi/handlers.h"
#include "ffi/tap_state.h"
#include "ffi/thread_token.h"
#include "frame/call_frame.h"
#include "frame/guard.h"

namespace callout::internal {
namespace {

struct GatheredCallState final : SiteState {
  CallSite site;
  Gathering gathering;
};

struct GatheredTapState final : TapState {
  using TapState::TapState;
  Gathering gathering;
};

template <typename State>
Status Keep(XLA_FFI_CallFrame* frame, std::unique_ptr<State> state) {
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

Status InstantiateGatheredCall(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const auto said, DecodeAttributes<GatheredCallAttributes>(frame->attrs));
  auto state = std::make_unique<GatheredCallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(said));
  CALLOUT_RETURN_IF_ERROR(state->gathering.Decode(said, state->site.callback().label()));
  return Keep(frame, std::move(state));
}

Status InstantiateGatheredTap(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const auto said, DecodeAttributes<GatheredTapAttributes>(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<TapSite> site, MakeCheckedTapSite(said));
  auto state = std::make_unique<GatheredTapState>(std::move(site), said);
  CALLOUT_RETURN_IF_ERROR(state->gathering.Decode(said, state->site().info.label));
  return Keep(frame, std::move(state));
}

// Decodes the frame, passes a token on, and meets the others.
template <typename Make>
Status MeetOthers(XLA_FFI_CallFrame* frame, const Gathering& gathering, bool threaded, Make&& make) {
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
  std::span<const callout_buffer> results;
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers.data(), results));
  if (threaded) CALLOUT_RETURN_IF_ERROR(PassToken(&args, &results));
  return gathering.Meet(frame, args, results, make);
}

Status ExecuteCall(XLA_FFI_CallFrame* frame, const GatheredCallState& state) {
  return MeetOthers(frame, state.gathering, state.site.threaded(), [&](const Gathered& whole) {
    return state.site.Run(frame, whole.args, whole.results, whole.device_ordinal);
  });
}

Status ExecuteTap(XLA_FFI_CallFrame* frame, const GatheredTapState& state) {
  return MeetOthers(frame, state.gathering, state.threaded(), [&](const Gathered& whole) {
    if (whole.results.size() + (state.threaded() ? 1U : 0U) != state.num_results()) {
      return InvalidArgument("callout: tap '" + state.site().info.label + "': expected " +
                             std::to_string(state.num_results()) +
                             " results (attributes `threaded`, `returned`, "
                             "`deferred`)");
    }
    const Status status = RunTap(frame, state, whole.args, whole.results, whole.device_ordinal);
    return state.deferred() ? Defer(status, whole.results) : status;
  });
}

template <typename State, typename Body>
XLA_FFI_Error* WithState(XLA_FFI_CallFrame* frame, Body&& body) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  const auto* state = static_cast<const State*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return GuardRun(frame, [&] { return body(frame, *state); });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_gathered_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return InstantiateGatheredCall(frame); });
}

XLA_FFI_Error* callout_v1_gathered_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<GatheredCallState>(frame, ExecuteCall);
}

XLA_FFI_Error* callout_v1_gathered_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return InstantiateGatheredTap(frame); });
}

XLA_FFI_Error* callout_v1_gathered_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<GatheredTapState>(frame, ExecuteTap);
}
