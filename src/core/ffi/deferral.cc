// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/deferral.h"

#include <cstring>

#include "core/callbacks/failures.h"
#include "core/frame/buffer.h"

namespace callout::internal {

Result<int32_t> DeferredNumber(const Status& outcome, std::span<const callout_buffer> results) {
  if (results.empty() || results.back().size_bytes != sizeof(int32_t)) {
    return InvalidArgument("callout: a deferred call's last result must be s32[], got " +
                           (results.empty() ? std::string("no result") : ShapeString(results.back())));
  }
  return outcome.ok() ? 0 : KeepFailure(outcome);
}

Status Defer(const Status& outcome, std::span<const callout_buffer> results) {
  CALLOUT_ASSIGN_OR_RETURN(const int32_t number, DeferredNumber(outcome, results));
  std::memcpy(results.back().data, &number, sizeof(number));
  if (outcome.ok()) return OkStatus();
  for (const callout_buffer& result : results.first(results.size() - 1)) {
    if (result.size_bytes > 0) std::memset(result.data, 0, result.size_bytes);
  }
  return OkStatus();
}

}  // namespace callout::internal
