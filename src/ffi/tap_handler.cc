// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/small_buffer.h"
#include "delivery/delivery.h"
#include "ffi/deferral.h"
#include "ffi/guard.h"
#include "ffi/handlers.h"
#include "ffi/thread_token.h"
#include "frame/call_frame.h"
#include "registry/invoke.h"
#include "registry/registry.h"
#include "sinks/value_print.h"

namespace callout::internal {
namespace {

class TapState final : public SiteState {
 public:
  TapState(std::unique_ptr<TapSite> site, bool deferred, bool threaded)
      : site_(std::move(site)), deferred_(deferred), threaded_(threaded) {}
  // Records of this site may still be queued: it follows them out.
  ~TapState() override { Delivery::Get().Retire(std::move(site_)); }
  TapSite& site() const { return *site_; }
  bool deferred() const { return deferred_; }
  bool threaded() const { return threaded_; }

 private:
  std::unique_ptr<TapSite> site_;
  const bool deferred_;
  const bool threaded_;
};

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0;;) {
    const size_t end = text.find('\n', begin);
    lines.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return lines;
    begin = end + 1;
  }
}

Result<std::unique_ptr<TapSite>> MakeSite(const XLA_FFI_Attrs& attrs) {
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view name, StringAttribute(attrs, "callback"));
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view needed, StringAttribute(attrs, "names"));
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view label, StringAttribute(attrs, "label"));
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view leaves, StringAttribute(attrs, "leaves"));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t every, Int64Attribute(attrs, "every", 1));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t min_interval_ns, Int64Attribute(attrs, "min_interval_ns", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t on_full, Int64Attribute(attrs, "on_full", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t offsets, Int64Attribute(attrs, "offsets", 0));
  if (every < 1 || min_interval_ns < 0 || on_full < 0 || on_full > 2) {
    return InvalidArgument(
        "callout: a tap's `every` must be at least 1, `min_interval_ns` at least 0 and `on_full` 0 to 2; "
        "got " +
        std::to_string(every) + ", " + std::to_string(min_interval_ns) + ", " + std::to_string(on_full));
  }
  EnsureValuePrintMaker();
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<Callback> callback, Registry::Get().Find(name, needed));
  SiteInfo info = {std::string(label.empty() ? std::string_view(callback->label()) : label), SplitLines(leaves),
                   offsets != 0};
  return std::make_unique<TapSite>(std::move(callback), std::move(info),
                                   std::make_shared<Throttle>(every, min_interval_ns),
                                   static_cast<OverflowPolicy>(on_full));
}

Status Instantiate(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<TapSite> site, MakeSite(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t deferred, Int64Attribute(frame->attrs, "deferred", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t threaded, Int64Attribute(frame->attrs, "threaded", 0));
  auto state = std::make_unique<TapState>(std::move(site), deferred != 0, threaded != 0);
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

Status Push(XLA_FFI_CallFrame* frame, TapSite& site, std::span<const callout_buffer> args) {
  const size_t expected = site.info.leaf_names.size() + (site.info.has_offsets ? 1 : 0);
  // A value without arrays: its tap says that it was reached. One empty name is what a program has by default.
  const bool has_no_arrays = args.empty() && expected == 1 && site.info.leaf_names[0].empty();
  if (args.size() != expected && !has_no_arrays) [[unlikely]] {
    return InvalidArgument("callout: tap '" + site.info.label + "': expected " + std::to_string(expected) +
                           " operands (attributes `leaves`, `offsets`), got " + std::to_string(args.size()));
  }
  const int32_t device_ordinal = DeviceOrdinal(frame);
  const Status status =
      Delivery::Get().Push(site, args.data(), static_cast<uint32_t>(args.size()), device_ordinal, RunId(frame));
  if (status.ok()) [[likely]]
    return OkStatus();
  return Status(status.code(), DescribeFailure(*site.callback, device_ordinal, status));
}

Status Execute(XLA_FFI_CallFrame* frame, const TapState& state) {
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  std::span<const callout_buffer> args(arg_buffers.data(), DecodeArgs(frame->args, arg_buffers.data()));
  if (!state.threaded() && !state.deferred()) [[likely]]
    return Push(frame, state.site(), args);
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> results(result_buffers.data(), DecodeRets(frame->rets, result_buffers.data()));
  if (state.threaded()) CALLOUT_RETURN_IF_ERROR(PassToken(&args, &results));
  Status status = Push(frame, state.site(), args);
  if (state.deferred()) return Defer(status, results);
  return status;
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return Instantiate(frame); });
}

XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  const auto* state = static_cast<const TapState*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [frame, state] { return Execute(frame, *state); });
}
