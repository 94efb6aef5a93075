// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/aliases.h"

#include <cstring>
#include <string>

#include "core/base/cat.h"

namespace callout::internal {

Aliases::Aliases(std::span<const int64_t> pairs) {
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) pairs_.push_back({pairs[i], pairs[i + 1]});
}

Aliases Aliases::InTurn(std::span<const int64_t> operands) {
  Aliases aliases;
  aliases.attribute_ = "returned";
  for (size_t i = 0; i < operands.size(); ++i) aliases.pairs_.push_back({operands[i], static_cast<int64_t>(i)});
  return aliases;
}

Status Aliases::Check(const callout_call& call) const {
  for (const Pair& pair : pairs_) {
    if (pair.operand < 0 || pair.operand >= call.num_args || pair.result < 0 || pair.result >= call.num_results ||
        call.args[pair.operand].size_bytes != call.results[pair.result].size_bytes) {
      return InvalidArgument(Cat("callout: operand ", pair.operand, " and result ", pair.result, " of attribute '",
                                 attribute_, "' do not fit each other"));
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
