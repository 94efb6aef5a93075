// SPDX-License-Identifier: Apache-2.0
#include "ffi/aliases.h"

#include <cstring>
#include <span>

namespace callout::internal {

Status Aliases::Decode(const XLA_FFI_Attrs& attrs) {
  CALLOUT_ASSIGN_OR_RETURN(const std::span<const int64_t> flat, Int64ArrayAttribute(attrs, "aliases"));
  if (flat.size() % 2 != 0) return InvalidArgument("callout: attribute 'aliases' must be pairs");
  for (size_t i = 0; i < flat.size(); i += 2) pairs_.push_back({flat[i], flat[i + 1]});
  return OkStatus();
}

Status Aliases::Check(const callout_call& call) const {
  for (const Pair& pair : pairs_) {
    if (pair.operand < 0 || pair.operand >= call.num_args || pair.result < 0 || pair.result >= call.num_results ||
        call.args[pair.operand].size_bytes != call.results[pair.result].size_bytes) {
      return InvalidArgument("callout: operand " + std::to_string(pair.operand) + " and result " +
                             std::to_string(pair.result) + " of attribute 'aliases' do not fit each other");
    }
  }
  return OkStatus();
}

void Aliases::Apply(const callout_call& call) const {
  ForEach(call, [](const callout_buffer& from, const callout_buffer& to) {
    std::memcpy(to.data, from.data, from.size_bytes);
  });
}

}  // namespace callout::internal
