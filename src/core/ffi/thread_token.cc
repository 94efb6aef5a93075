// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/thread_token.h"

#include <string>

#include "callout/dtype.h"
#include "core/frame/buffer.h"

namespace callout::internal {
namespace {

std::string Describe(std::span<const callout_buffer> buffers) {
  return buffers.empty() ? "nothing" : ShapeString(buffers.front());
}

bool HasToken(std::span<const callout_buffer> buffers) {
  return !buffers.empty() && buffers.front().dtype == static_cast<uint32_t>(DType::kUint32) &&
         buffers.front().rank == 0;
}

}  // namespace

Result<ThreadToken> TakeToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results) {
  if (!HasToken(*args) || !HasToken(*results)) {
    return InvalidArgument("callout: a threaded call's first operand and first result must be u32[], got " +
                           Describe(*args) + " and " + Describe(*results));
  }
  const ThreadToken token = {args->front().data, results->front().data};
  *args = args->subspan(1);
  *results = results->subspan(1);
  return token;
}

Status PassToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results) {
  CALLOUT_ASSIGN_OR_RETURN(const ThreadToken token, TakeToken(args, results));
  token.CopyOnHost();
  return OkStatus();
}

}  // namespace callout::internal
