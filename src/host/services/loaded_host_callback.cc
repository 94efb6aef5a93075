// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/host_callback.h"

#include <iterator>

#include "core/base/caught.h"
#include "core/base/deadline.h"
#include "core/base/process_state.h"
#include "core/base/ticks.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/closure.h"
#include "core/callbacks/native_call.h"
#include "core/callbacks/native_function.h"
#include "core/callbacks/stats_table.h"
#include "core/delivery/delivery.h"
#include "sinks/catalog/callback_kinds.h"

namespace callout::pjrt {
namespace {

// A C++ function of the host.
class HostFunction final : public internal::Callback {
 public:
  HostFunction(std::string label, std::function<Status(const callout::Call&)> function)
      : Callback(std::move(label)), function_(std::move(function)) {}

  internal::Worker worker() const override { return internal::Worker::kNative; }
  Status Call(const callout_call& call) override {
    return internal::CallNative(call, [this](const callout_call* whole) { return function_(callout::Call(whole)); });
  }
  Status Deliver(const internal::Record& record) override { return Call(AsCall(record)); }

 private:
  const std::function<Status(const callout::Call&)> function_;
};

// The one place where the numbers of SinkCallback::Kind, and of callout_sink_kind in C, are names. Null for other
// numbers. Kinds that came later have none: OpaqueCallback makes all of them.
const internal::SinkKind* KindOfNumber(SinkCallback::Kind kind) {
  constexpr const char* kNames[] = {"null", "print", "jsonl", "csv", "tensorboard", "arrow", "npy", "zarr"};
  const auto number = static_cast<uint32_t>(kind);
  return number < std::size(kNames) ? internal::FindSinkKind(kNames[number]) : nullptr;
}

}  // namespace

LoadedHostCallbackMakeArgs::~LoadedHostCallbackMakeArgs() = default;

Result<std::string> LoadedHostCallback::Serialize() const {
  if (!serialized_.empty()) return serialized_;
  return Unimplemented("callout: the callback '" + name_ + "' is a function of this process and cannot be serialized");
}

Result<LoadedHostCallback> FunctionCallback::Make() const {
  if (!function) return InvalidArgument("callout: the callback '" + name + "' has no function");
  return LoadedHostCallback(name, std::make_shared<HostFunction>(name, function));
}

Result<LoadedHostCallback> LibraryCallback::Make() const {
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<internal::Callback> callback, internal::LoadNativeFunction(name, spec));
  return LoadedHostCallback(name, std::move(callback), "library:" + spec);
}

bool SinkCallback::NeedsPath() const {
  const internal::SinkKind* const found = KindOfNumber(kind);
  return found != nullptr && found->needs_path();
}

Result<LoadedHostCallback> SinkCallback::Make() const {
  const internal::SinkKind* const found = KindOfNumber(kind);
  if (found == nullptr) {
    return InvalidArgument("callout: there is no kind " + std::to_string(static_cast<uint32_t>(kind)) + " of sinks");
  }
  std::string text = found->name;
  if (found->has_main && !path.empty()) text += ":" + path;
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<internal::Callback> sink, internal::MakeSink(name, text));
  return LoadedHostCallback(name, std::move(sink), std::move(text));
}

ClosureCallback::ClosureCallback(std::string callback_name, const callout_closure& closure)
    : name(std::move(callback_name)), callback(internal::MakeClosure(name, closure)) {}

Result<LoadedHostCallback> ClosureCallback::Make() const {
  if (!callback.ok()) return callback.status();
  return LoadedHostCallback(name, callback.value());
}

static Status AwaitDeliveries(double timeout_seconds) {
  const auto deadline = internal::DeadlineAfter(timeout_seconds);
  internal::Delivery& delivery = internal::Delivery::Get();
  std::string outstanding;
  for (const std::string& one : delivery.Drain(deadline)) outstanding += (outstanding.empty() ? "" : "; ") + one;
  if (!outstanding.empty()) {
    return Status(StatusCode::kDeadlineExceeded, "callout: still outstanding: " + outstanding);
  }
  const internal::DeliveryErrorReport errors = delivery.TakeErrors();
  if (errors.count == 0) return OkStatus();
  return Status(errors.last_code, std::to_string(errors.count) + " taps failed; the last one: " + errors.last);
}

Status BarrierWait(double timeout_seconds) {
  if (internal::DeliveryThread::IsCurrent()) {
    return FailedPrecondition("callout: BarrierWait inside a tap's function would wait for itself");
  }
  if (internal::ProcessIsForkedChild()) return internal::ForkedChildError();
  return internal::Guarded(&AwaitDeliveries, timeout_seconds);
}

std::vector<CallbackStatistics> ReadStatistics() {
  constexpr double kNanosecondsPerSecond = 1e9;
  std::vector<CallbackStatistics> all;
  for (const auto& [name, stats] : internal::AllStats()) {
    all.push_back({name, stats->all_calls(), stats->all_bytes(),
                   internal::TicksToNanoseconds(stats->host_ticks) / kNanosecondsPerSecond, stats->drops, stats->skips,
                   stats->errors});
  }
  return all;
}

}  // namespace callout::pjrt
