// SPDX-License-Identifier: Apache-2.0
#include "callbacks/invoke.h"

#include "base/caught.h"
#include "base/process_state.h"
#include "base/ticks.h"
#include "callbacks/in_flight.h"
#include "profile/recorder.h"

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

// Two time stamps cost half as much as the rest of a call of a short native function. Callbacks that are called often
// and are short are timed now and then, and what is measured counts for the calls in between.
constexpr uint64_t kFirstCalls = 64;  // always timed
constexpr uint64_t kTimedEvery = 17;  // a prime: programs call their sites in turn, often 2, 4 or 8 of them

class Stopwatch {
 public:
  explicit Stopwatch(CallbackStats& stats) : stats_(stats) {
    const uint64_t calls = stats.calls.load(std::memory_order_relaxed);
    if (calls >= kFirstCalls && !stats.takes_long.load(std::memory_order_relaxed)) [[likely]]
      weight_ = calls % kTimedEvery == 0 ? kTimedEvery : 0;
    if (weight_ > 0) start_ = Ticks();
  }

  void Stop() const {
    if (weight_ == 0) [[likely]]
      return;
    const uint64_t ticks = Ticks() - start_;
    stats_.host_ticks.fetch_add(ticks * weight_, std::memory_order_relaxed);
    stats_.takes_long.store(ticks > TicksOfMicroseconds(), std::memory_order_relaxed);
  }

 private:
  CallbackStats& stats_;
  uint64_t weight_ = 1;
  uint64_t start_ = 0;
};

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

uint64_t TotalBytes(std::span<const callout_buffer> buffers) {
  uint64_t bytes = 0;
  for (const callout_buffer& buffer : buffers) bytes += buffer.size_bytes;
  return bytes;
}

std::string DescribeFailure(const Callback& callback, int32_t device_ordinal, const Status& status) {
  std::string text = "callout: callback '" + callback.label() + "' failed";
  if (device_ordinal >= 0) text += " on device " + std::to_string(device_ordinal);
  return text.append(": ").append(status.message());
}

Status Invoke(Callback& callback, const callout_call& call) {
  const InFlightScope in_flight(Activity::kCall, callback.id(), call.device_ordinal, call.run_id);
  CallbackStats& stats = callback.stats();
  const Status status = ProfileSession() == 0 ? CallTimed(callback, call) : CallRecorded(callback, call);
  stats.calls.fetch_add(1, std::memory_order_relaxed);
  stats.bytes.fetch_add(BytesOf(call), std::memory_order_relaxed);
  if (status.ok()) [[likely]]
    return OkStatus();
  stats.errors.fetch_add(1, std::memory_order_relaxed);
  return Status(status.code(), DescribeFailure(callback, call.device_ordinal, status));
}

}  // namespace callout::internal
