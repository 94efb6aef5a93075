// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <iterator>
#include <utility>

#include "callout/pjrt/host_callback.h"
#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/status.h"
#include "core/base/ticks.h"
#include "core/callbacks/call_statistics.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/native_function.h"
#include "core/delivery/delivery.h"
#include "sinks/catalog/callback_kinds.h"

namespace callout::pjrt {
namespace {

// A C++ function of the host as a callback.
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

// Maps the numbers of SinkCallback::Kind, and of callout_sink_kind in C, to names; no other place does. Null for other
// numbers. Newer kinds have no number: OpaqueCallback makes all kinds.
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
    return InvalidArgument(internal::Cat("callout: there is no kind ", static_cast<uint32_t>(kind), " of sinks"));
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
  const std::string outstanding = internal::Join(delivery.Drain(deadline), "; ");
  if (!outstanding.empty()) {
    return Status(StatusCode::kDeadlineExceeded, "callout: still outstanding: " + outstanding);
  }
  const internal::DeliveryErrorReport errors = delivery.TakeErrors();
  if (errors.count == 0) return OkStatus();
  return errors.last.WithMessage(internal::Cat(errors.count, " taps failed; the last one: ", errors.last.message()));
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
    all.push_back({name, stats->calls(), stats->bytes(),
                   internal::TicksToNanoseconds(stats->host_ticks) / kNanosecondsPerSecond, stats->drops, stats->skips,
                   stats->errors});
  }
  return all;
}

namespace {

using internal::Callback;
using internal::Makers;

// Catches exceptions of a host's maker, because the maker is also called where none may be thrown.
Result<LoadedHostCallback> CallMaker(const HostCallbackMaker& maker, const std::string& label,
                                     std::string_view payload) {
  const std::string what = "callout: the maker of the callback '" + label + "' failed: ";
  try {
    return maker(label, payload);
  } catch (const std::exception& e) {
    return InternalError(what + e.what());
  } catch (...) {
    return InternalError(what + "it threw something that is not a std::exception");
  }
}

}  // namespace

Result<LoadedHostCallback> OpaqueCallback::Make() const {
  internal::RegisterKinds();
  const bool is_sink = internal::SinkKindOf(bytes) != nullptr;
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<Callback> callback,
                           is_sink ? internal::MakeSink(name, bytes) : Makers::Get().Make(name, bytes));
  return LoadedHostCallback(name, std::move(callback), bytes);
}

Status RegisterHostCallbackMaker(const std::string& kind, HostCallbackMaker maker, bool programs_may_use) {
  internal::RegisterKinds();
  if (!maker) return InvalidArgument("callout: the maker of callbacks of kind '" + kind + "' is no function");
  auto make = [maker = std::move(maker)](const std::string& label,
                                         std::string_view payload) -> Result<std::shared_ptr<Callback>> {
    CALLOUT_ASSIGN_OR_RETURN(const LoadedHostCallback made, CallMaker(maker, label, payload));
    if (made.callback() == nullptr) {
      return InternalError("callout: the maker of the callback '" + label + "' made nothing");
    }
    return made.callback();
  };
  return Makers::Get().Register(kind, std::move(make), programs_may_use ? Makers::For::kPrograms : Makers::For::kHosts);
}

}  // namespace callout::pjrt
