// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>

#include "base/small_buffer.h"
#include "delivery/delivery.h"
#include "ffi/deferral.h"
#include "ffi/guard.h"
#include "ffi/handlers.h"
#include "ffi/lanes.h"
#include "ffi/thread_token.h"
#include "frame/attributes.h"
#include "frame/call_frame.h"
#include "registry/embedded_library.h"
#include "registry/invoke.h"
#include "registry/registry.h"

namespace callout::internal {
namespace {

class CallState final : public SiteState {
 public:
  CallState(std::shared_ptr<Callback> callback, bool ordered, bool deferred, bool threaded)
      : callback_(std::move(callback)), ordered_(ordered), deferred_(deferred), threaded_(threaded) {}
  Callback& callback() const { return *callback_; }
  Attributes& attributes() { return attributes_; }
  std::span<const callout_attribute> attributes() const { return attributes_.view(); }
  bool ordered() const { return ordered_; }
  bool deferred() const { return deferred_; }
  bool threaded() const { return threaded_; }
  Lanes& lanes() { return lanes_; }
  Aliases& aliases() { return aliases_; }

  Status Call(XLA_FFI_CallFrame* frame, const callout_call& call) const {
    if (!lanes_.empty()) return lanes_.Call(frame, *callback_, aliases_, call);
    if (!aliases_.empty()) {
      CALLOUT_RETURN_IF_ERROR(aliases_.Check(call));
      aliases_.Apply(call);
    }
    return Invoke(*callback_, call);
  }

 private:
  const std::shared_ptr<Callback> callback_;
  const bool ordered_;
  const bool deferred_;
  const bool threaded_;
  Attributes attributes_;
  Lanes lanes_;
  Aliases aliases_;
};

Result<std::shared_ptr<Callback>> FindCallback(const XLA_FFI_Attrs& attrs) {
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view name, StringAttribute(attrs, "callback"));
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view needed, StringAttribute(attrs, "names"));
  CALLOUT_ASSIGN_OR_RETURN(const XLA_FFI_Attrs* library, DictionaryAttribute(attrs, "library"));
  if (library == nullptr) return Registry::Get().Find(name, needed);
  EmbeddedLibrary embedded;
  CALLOUT_ASSIGN_OR_RETURN(embedded.bytes, StringAttribute(*library, "bytes"));
  CALLOUT_ASSIGN_OR_RETURN(embedded.digest, StringAttribute(*library, "digest"));
  CALLOUT_ASSIGN_OR_RETURN(embedded.platform, StringAttribute(*library, "platform"));
  CALLOUT_ASSIGN_OR_RETURN(embedded.symbol, StringAttribute(*library, "symbol"));
  return LoadEmbeddedFunction(std::string(name), embedded);
}

Status Instantiate(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const int64_t ordered, Int64Attribute(frame->attrs, "ordered", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t deferred, Int64Attribute(frame->attrs, "deferred", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t threaded, Int64Attribute(frame->attrs, "threaded", 0));
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<Callback> callback, FindCallback(frame->attrs));
  auto state = std::make_unique<CallState>(std::move(callback), ordered != 0, deferred != 0, threaded != 0);
  CALLOUT_RETURN_IF_ERROR(state->attributes().Decode(frame->attrs, "attributes"));
  CALLOUT_RETURN_IF_ERROR(state->lanes().Decode(frame->attrs));
  CALLOUT_RETURN_IF_ERROR(state->aliases().Decode(frame->attrs));
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

Status Execute(XLA_FFI_CallFrame* frame, const CallState& state) {
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> args(arg_buffers.data(), DecodeArgs(frame->args, arg_buffers.data()));
  std::span<const callout_buffer> results(result_buffers.data(), DecodeRets(frame->rets, result_buffers.data()));
  if (state.threaded()) CALLOUT_RETURN_IF_ERROR(PassToken(&args, &results));
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(args.size());
  call.num_results = static_cast<uint32_t>(results.size());
  call.args = args.data();
  call.results = results.data();
  call.run_id = RunId(frame);
  call.device_ordinal = DeviceOrdinal(frame);
  call.error_context = frame;
  call.attributes = state.attributes().data();
  call.num_attributes = static_cast<uint32_t>(state.attributes().size());
  // Taps before this call in program order are heard before it.
  if (state.ordered()) Delivery::Get().DrainDevice(state.callback(), call.device_ordinal, call.run_id);
  if (!state.deferred()) [[likely]]
    return state.Call(frame, call);
  if (call.num_results > 0) --call.num_results;
  return Defer(state.Call(frame, call), results);
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return Instantiate(frame); });
}

XLA_FFI_Error* callout_v1_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  const auto* state = static_cast<const CallState*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [frame, state] { return Execute(frame, *state); });
}
