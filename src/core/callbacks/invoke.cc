// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/invoke.h"

#include "core/base/process_state.h"
#include "core/base/status.h"
#include "core/callbacks/call_statistics.h"
#include "core/callbacks/in_flight.h"
#include "core/profile/recorder.h"

namespace callout::internal {
namespace {

[[gnu::always_inline]] inline Status CallGuarded(Callback& callback, const callout_call& call) {
  if (ProcessIsForkedChild()) [[unlikely]] {
    return FailedPrecondition(
        "ForkError: this process was forked from one that used Callout and JAX, whose threads stayed "
        "there. Start workers with the 'spawn' method instead");
  }
  try {
    return callback.Call(call);
  } catch (...) {
    return CaughtStatus();
  }
}

uint64_t BytesOf(const callout_call& call) {
  return TotalBytes({call.args, call.num_args}) + TotalBytes({call.results, call.num_results});
}

[[gnu::always_inline]] inline Status CallTimed(Callback& callback, const callout_call& call) {
  const Stopwatch stopwatch(callback.stats());
  Status status = CallGuarded(callback, call);
  stopwatch.Stop();
  return status;
}

[[gnu::noinline, gnu::cold]] Status CallRecorded(Callback& callback, const callout_call& call) {
  const ProfileSpan span;
  Status status = CallTimed(callback, call);
  ProfileEvent event = EventOf(ProfileKind::kCall, callback, call.device_ordinal, span.session());
  event.bytes = BytesOf(call);
  event.failed = !status.ok();
  event.eager = call.error_context == nullptr;
  span.End(event);
  return status;
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
  if (device_ordinal >= 0) text += " on device " + std::to_string(device_ordinal);
  return text.append(": ").append(status.message());
}

Status Invoke(Callback& callback, const callout_call& call) {
  const InFlightScope in_flight(Activity::kCall, callback.id(), call.device_ordinal, call.run_id,
                                callback.label().c_str());
  CallbackStats& stats = callback.stats();
  const Status status = ProfileSession() == 0 ? CallTimed(callback, call) : CallRecorded(callback, call);
  stats.CountPass(BytesOf(call));
  if (status.ok()) [[likely]]
    return OkStatus();
  stats.errors.fetch_add(1, std::memory_order_relaxed);
  return Status(status.code(), DescribeFailure(callback, call.device_ordinal, status));
}

}  // namespace callout::internal
