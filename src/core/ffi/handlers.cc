// SPDX-License-Identifier: Apache-2.0
//
// The handlers of calls and checks on a CPU, where the callback gets XLA's own memory.
#include "core/ffi/handlers.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/attributes/decode.h"
#include "core/attributes/site_attributes.h"
#include "core/base/cat.h"
#include "core/callbacks/failures.h"
#include "core/callbacks/registry.h"
#include "core/ffi/call_site.h"
#include "core/ffi/failed_run.h"
#include "core/frame/buffer.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"

namespace callout::internal {
namespace {

Status BadFrame(const std::string& what) {
  return InvalidArgument("callout.v1.check: expected operands (s32[] status, values...) and the values as results; " +
                         what);
}

}  // namespace

Status CheckFrame::Decode(XLA_FFI_CallFrame* frame) {
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, operands.data(), args));
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, outputs.data(), results));
  if (args.size() != results.size() + 1 || args[0].size_bytes != sizeof(int32_t)) {
    return BadFrame(Cat("got ", args.size(), " operands and ", results.size(), " results"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (args[i + 1].size_bytes == results[i].size_bytes) continue;
    return BadFrame("got " + ShapeString(args[i + 1]) + " and " + ShapeString(results[i]));
  }
  return OkStatus();
}

Status FailureOf(int32_t number, std::string_view name) {
  if (std::optional<Status> failure = FindFailure(number)) return std::move(*failure);
  // The program of this process holds the callback, too, though it never runs it.
  Result<std::shared_ptr<Callback>> callback = Registry::Get().Find(name);
  const std::string label = callback.ok() ? (*callback)->label() : std::string(name);
  return InternalError("callout: callback '" + label + "' failed in another process, which has the error");
}

namespace {

Status ExecuteCheck(XLA_FFI_CallFrame* frame) {
  CheckFrame check(frame);
  CALLOUT_RETURN_IF_ERROR(check.Decode(frame));
  int32_t number;
  std::memcpy(&number, check.args[0].data, sizeof(number));
  if (number != 0) {
    CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes attributes, DecodeAttributes<CheckAttributes>(frame->attrs));
    return FailureOf(number, attributes.callback);
  }
  return check.PassOn([](void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return OkStatus();
  });
}

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

XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return Guard(frame->api, [frame] { return NoteOfRun(frame, ExecuteCheck(frame)); });
}

XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateCall);
}

XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<CallState>(frame, ExecuteCall);
}
