// SPDX-License-Identifier: Apache-2.0
//
// Calls on a CPU, where the callback gets XLA's own memory.
#include <memory>
#include <utility>

#include "core/ffi/call_site.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/handlers.h"
#include "core/frame/handler.h"

namespace callout::internal {
namespace {

struct CallState final : SiteState {
  CallSite site;
};

Status InstantiateCall(XLA_FFI_CallFrame* frame) {
  auto state = std::make_unique<CallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(frame->attrs));
  return KeepState(frame, std::move(state));
}

Status ExecuteCall(XLA_FFI_CallFrame* frame, const CallState& state) {
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.DecodeOnHost(frame, state.site.threaded()));
  return state.site.Run(frame, operands.args(), operands.results());
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateCall);
}

XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<CallState>(frame, ExecuteCall);
}
