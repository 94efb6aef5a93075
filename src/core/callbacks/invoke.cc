// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/invoke.h"

#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/status.h"
#include "core/callbacks/probe.h"

namespace callout::internal {
namespace {

[[gnu::always_inline]] inline Status CallGuarded(Callback& callback, const callout_call& call) {
  if (ProcessIsForkedChild()) [[unlikely]]
    return ForkedChildError();
  try {
    return callback.Call(call);
  } catch (...) {
    return CaughtStatus();
  }
}

uint64_t BytesOf(const callout_call& call) {
  return TotalBytes({call.args, call.num_args}) + TotalBytes({call.results, call.num_results});
}

}  // namespace

ProfileEvent EventOf(ProfileKind kind, const Callback& callback, int32_t device_ordinal, uint32_t session) {
  return {.label = ProfileLabel(session, callback.label(), callback.stats().profile_label),
          .device = device_ordinal,
          .kind = kind,
          .worker = static_cast<uint8_t>(callback.worker())};
}

std::string DescribeFailure(const Callback& callback, int32_t device_ordinal, const Status& status) {
  std::string text = "callout: callback '" + callback.label() + "' failed";
  if (device_ordinal >= 0) text += Cat(" on device ", device_ordinal);
  return text.append(": ").append(status.message());
}

Status Invoke(Callback& callback, const callout_call& call) {
  const Probe probe(Activity::kCall, callback, call.device_ordinal, call.run_id, Probe::Timing::kSampled);
  const Status status = CallGuarded(callback, call);
  probe.Over(BytesOf(call), !status.ok(), ProfileKind::kCall,
             [&](ProfileEvent& event) { event.eager = call.error_context == nullptr; });
  if (status.ok()) [[likely]]
    return OkStatus();
  return status.WithMessage(DescribeFailure(callback, call.device_ordinal, status));
}

}  // namespace callout::internal
