// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/attributes/call_attributes.h"
#include "core/attributes/decode.h"
#include "core/ffi/check_frame.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/handlers.h"
#include "core/frame/guard.h"

namespace callout::internal {
namespace {

Status ExecuteCheck(XLA_FFI_CallFrame* frame) {
  CheckFrame check(frame);
  CALLOUT_RETURN_IF_ERROR(check.Decode(frame));
  int32_t number;
  std::memcpy(&number, check.args[0].data, sizeof(number));
  if (number != 0) {
    CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes said, DecodeAttributes<CheckAttributes>(frame->attrs));
    return FailureOf(number, said.callback);
  }
  return check.PassOn([](void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return OkStatus();
  });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return Guard(frame->api, [frame] { return NoteOfRun(frame, ExecuteCheck(frame)); });
}
