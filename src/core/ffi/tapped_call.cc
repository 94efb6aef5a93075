// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/tapped_call.h"

#include <string>

#include "core/attributes/tap_attributes.h"
#include "core/callbacks/invoke.h"

namespace callout::internal {

// Records of the site may still be queued: it follows them out.
TappedCall::~TappedCall() {
  if (site_ != nullptr) Delivery::Get().Retire(std::move(site_));
}

Status TappedCall::MakeSite(size_t num_leaves) {
  CALLOUT_RETURN_IF_ERROR(callback_->CheckTap(num_leaves));
  std::string leaves;  // of one operand: "", it is the value
  for (size_t i = 0; num_leaves > 1 && i < num_leaves; ++i) leaves += (i == 0 ? "" : "\n") + std::to_string(i);
  TapAttributes said;
  said.leaves = leaves;
  site_ = std::make_unique<TapSite>(callback_, said);
  return OkStatus();
}

Status TappedCall::Push(const callout_call& call) {
  if (call.num_results > 0) return Invoke(*callback_, call);  // which says that it cannot be
  std::call_once(made_, [&] { unmade_ = MakeSite(call.num_args); });
  Status status = unmade_;
  if (status.ok() && call.num_args > 0 && call.num_args != site_->info.leaf_names.size()) {
    status = InvalidArgument("expected " + std::to_string(site_->info.leaf_names.size()) + " operands, got " +
                             std::to_string(call.num_args));
  }
  if (status.ok()) {
    status = Delivery::Get().Push(*site_, {.buffers = {call.args, call.num_args},
                                           .device_ordinal = call.device_ordinal,
                                           .run_id = call.run_id,
                                           .step = std::nullopt});
  }
  if (status.ok()) return OkStatus();
  return Status(status.code(), DescribeFailure(*callback_, call.device_ordinal, status));
}

}  // namespace callout::internal
