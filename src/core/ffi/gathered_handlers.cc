// SPDX-License-Identifier: Apache-2.0
//
// Calls and taps for which the devices of a program come together.
#include <memory>
#include <utility>

#include "core/attributes/decode.h"
#include "core/ffi/call_operands.h"
#include "core/ffi/call_site.h"
#include "core/ffi/deferral.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/gathering.h"
#include "core/ffi/handlers.h"
#include "core/ffi/tap_state.h"
#include "core/frame/handler.h"

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

Status InstantiateGatheredCall(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const auto said, DecodeAttributes<GatheredCallAttributes>(frame->attrs));
  auto state = std::make_unique<GatheredCallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(said));
  CALLOUT_RETURN_IF_ERROR(state->gathering.Decode(said, state->site.callback().label()));
  return KeepState(frame, std::move(state));
}

Status InstantiateGatheredTap(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const auto said, DecodeAttributes<GatheredTapAttributes>(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<TapSite> site, MakeCheckedTapSite(said));
  auto state = std::make_unique<GatheredTapState>(std::move(site), said);
  CALLOUT_RETURN_IF_ERROR(state->gathering.Decode(said, state->site().info.label));
  return KeepState(frame, std::move(state));
}

Status ExecuteGatheredCall(XLA_FFI_CallFrame* frame, const GatheredCallState& state) {
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.DecodeOnHost(frame, state.site.threaded()));
  return state.gathering.Meet(frame, operands.args(), operands.results(), [&](const Gathered& whole) {
    return state.site.Run(frame, whole.args, whole.results, whole.device_ordinal);
  });
}

Status ExecuteGatheredTap(XLA_FFI_CallFrame* frame, const GatheredTapState& state) {
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.DecodeOnHost(frame, state.threaded()));
  return state.gathering.Meet(frame, operands.args(), operands.results(), [&](const Gathered& whole) {
    CALLOUT_RETURN_IF_ERROR(CheckTapResults(whole.results.size() + (state.threaded() ? 1U : 0U), state));
    const Status status = RunTap(frame, state, whole.args, whole.results, whole.device_ordinal);
    return state.deferred() ? Defer(status, whole.results) : status;
  });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_gathered_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateGatheredCall);
}

XLA_FFI_Error* callout_v1_gathered_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<GatheredCallState>(frame, ExecuteGatheredCall);
}

XLA_FFI_Error* callout_v1_gathered_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateGatheredTap);
}

XLA_FFI_Error* callout_v1_gathered_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<GatheredTapState>(frame, ExecuteGatheredTap);
}
