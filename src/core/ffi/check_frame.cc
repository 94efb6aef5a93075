// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/check_frame.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/callbacks/failures.h"
#include "core/callbacks/registry.h"
#include "core/frame/buffer.h"
#include "core/frame/call_frame.h"

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
    return BadFrame("got " + std::to_string(args.size()) + " operands and " + std::to_string(results.size()) +
                    " results");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (args[i + 1].size_bytes == results[i].size_bytes) continue;
    return BadFrame("got " + ShapeString(args[i + 1]) + " and " + ShapeString(results[i]));
  }
  return OkStatus();
}

Status FailureOf(int32_t number, std::string_view name) {
  if (std::optional<Status> failure = FindFailure(number)) return std::move(*failure);
  // The program holds the callback here too, though it never runs it.
  Result<std::shared_ptr<Callback>> callback = Registry::Get().Find(name);
  const std::string label = callback.ok() ? (*callback)->label() : std::string(name);
  return InternalError("callout: callback '" + label + "' failed in another process, which has the error");
}

}  // namespace callout::internal
