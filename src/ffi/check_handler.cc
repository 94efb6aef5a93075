// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <string>

#include "base/small_buffer.h"
#include "ffi/guard.h"
#include "ffi/handlers.h"
#include "frame/buffer.h"
#include "frame/call_frame.h"
#include "registry/failures.h"
#include "registry/registry.h"

namespace callout::internal {
namespace {

Status BadFrame(const std::string& what) {
  return InvalidArgument("callout.v1.check: expected operands (s32[] status, values...) and the values as results; " +
                         what);
}

Status PassOn(const callout_buffer& value, const callout_buffer& result) {
  if (value.size_bytes != result.size_bytes) {
    return BadFrame("got " + ShapeString(value) + " and " + ShapeString(result));
  }
  // XLA lets them be one buffer where nothing else reads the operand.
  if (value.data != result.data && value.size_bytes > 0) std::memcpy(result.data, value.data, value.size_bytes);
  return OkStatus();
}

Status Execute(XLA_FFI_CallFrame* frame) {
  SmallBuffer<callout_buffer, 16> args(static_cast<size_t>(frame->args.size));
  SmallBuffer<callout_buffer, 8> results(static_cast<size_t>(frame->rets.size));
  const uint32_t num_args = DecodeArgs(frame->args, args.data());
  const uint32_t num_results = DecodeRets(frame->rets, results.data());
  if (num_args != num_results + 1 || args.data()[0].size_bytes != sizeof(int32_t)) {
    return BadFrame("got " + std::to_string(num_args) + " operands and " + std::to_string(num_results) + " results");
  }
  int32_t number;
  std::memcpy(&number, args.data()[0].data, sizeof(number));
  if (number != 0) {
    if (std::optional<Status> failure = FindFailure(number)) return std::move(*failure);
    CALLOUT_ASSIGN_OR_RETURN(const std::string_view name, StringAttribute(frame->attrs, "callback"));
    // The program holds the callback here too, though it never runs it.
    Result<std::shared_ptr<Callback>> callback = Registry::Get().Find(name);
    const std::string label = callback.ok() ? (*callback)->label() : std::string(name);
    return InternalError("callout: callback '" + label + "' failed in another process, which has the error");
  }
  for (uint32_t i = 0; i < num_results; ++i) {
    CALLOUT_RETURN_IF_ERROR(PassOn(args.data()[i + 1], results.data()[i]));
  }
  return OkStatus();
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return Guard(frame->api, [frame] { return Execute(frame); });
}
