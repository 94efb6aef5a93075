// SPDX-License-Identifier: Apache-2.0
//
// Calls on a CPU, where the callback gets XLA's own memory.
#include <memory>
#include <span>

#include "base/small_buffer.h"
#include "ffi/call_site.h"
#include "ffi/failed_run.h"
#include "ffi/handlers.h"
#include "ffi/thread_token.h"
#include "frame/call_frame.h"
#include "frame/guard.h"

namespace callout::internal {
namespace {

struct CallState final : SiteState {
  CallSite site;
};

Status InstantiateCall(XLA_FFI_CallFrame* frame) {
  auto state = std::make_unique<CallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(frame->attrs));
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

Status Execute(XLA_FFI_CallFrame* frame, const CallSite& site) {
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
  std::span<const callout_buffer> results;
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers.data(), results));
  if (site.threaded()) CALLOUT_RETURN_IF_ERROR(PassToken(&args, &results));
  return site.Run(frame, args, results);
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return InstantiateCall(frame); });
}

XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  const auto* state = static_cast<const CallState*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return GuardRun(frame, [frame, state] { return Execute(frame, state->site); });
}
