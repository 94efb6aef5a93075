// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/call_site.h"

#include <cstring>
#include <string>

#include "callout/dtype.h"
#include "core/attributes/jax_calls.h"
#include "core/attributes/site_attributes.h"
#include "core/base/cat.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/embedded_library.h"
#include "core/callbacks/failures.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/registry.h"
#include "core/callbacks/run_context.h"
#include "core/delivery/delivery.h"
#include "core/frame/buffer.h"

namespace callout::internal {

// Records of the site may still be queued, so Retire destroys the site after them.
TappedCall::~TappedCall() {
  if (site_ != nullptr) Delivery::Get().Retire(std::move(site_));
}

Status TappedCall::MakeSite(size_t num_leaves) {
  CALLOUT_RETURN_IF_ERROR(callback_->CheckTap(num_leaves));
  std::string leaves;  // "" for one operand, which is the whole value
  for (size_t i = 0; num_leaves > 1 && i < num_leaves; ++i) leaves += Cat(i == 0 ? "" : "\n", i);
  TapAttributes attributes;
  attributes.leaves = leaves;
  site_ = std::make_unique<TapSite>(callback_, attributes);
  return OkStatus();
}

Status TappedCall::Push(const callout_call& call) {
  if (call.num_results > 0) return Invoke(*callback_, call);  // returns the error that the callback takes taps only
  std::call_once(made_, [&] { unmade_ = MakeSite(call.num_args); });
  Status status = unmade_;
  if (status.ok() && call.num_args > 0 && call.num_args != site_->info.leaf_names.size()) {
    status = InvalidArgument(Cat("expected ", site_->info.leaf_names.size(), " operands, got ", call.num_args));
  }
  if (status.ok()) {
    status = Delivery::Get().Push(*site_, {.buffers = {call.args, call.num_args},
                                           .device_ordinal = call.device_ordinal,
                                           .run_id = call.run_id,
                                           .step = std::nullopt});
  }
  if (status.ok()) return OkStatus();
  return status.WithMessage(DescribeFailure(*callback_, call.device_ordinal, status));
}

namespace {

std::string Describe(std::span<const callout_buffer> buffers) {
  return buffers.empty() ? "nothing" : ShapeString(buffers.front());
}

bool HasToken(std::span<const callout_buffer> buffers) {
  return !buffers.empty() && buffers.front().dtype == static_cast<uint32_t>(DType::kUint32) &&
         buffers.front().rank == 0;
}

}  // namespace

Result<ThreadToken> TakeToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results) {
  if (!HasToken(*args) || !HasToken(*results)) {
    return InvalidArgument("callout: a threaded call's first operand and first result must be u32[], got " +
                           Describe(*args) + " and " + Describe(*results));
  }
  const ThreadToken token = {args->front().data, results->front().data};
  *args = args->subspan(1);
  *results = results->subspan(1);
  return token;
}

Status PassToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results) {
  CALLOUT_ASSIGN_OR_RETURN(const ThreadToken token, TakeToken(args, results));
  token.CopyOnHost();
  return OkStatus();
}

Result<int32_t> DeferredNumber(const Status& outcome, std::span<const callout_buffer> results) {
  if (results.empty() || results.back().size_bytes != sizeof(int32_t)) {
    return InvalidArgument("callout: a deferred call's last result must be s32[], got " +
                           (results.empty() ? std::string("no result") : ShapeString(results.back())));
  }
  return outcome.ok() ? 0 : KeepFailure(outcome);
}

Status Defer(const Status& outcome, std::span<const callout_buffer> results) {
  CALLOUT_ASSIGN_OR_RETURN(const int32_t number, DeferredNumber(outcome, results));
  std::memcpy(results.back().data, &number, sizeof(number));
  if (outcome.ok()) return OkStatus();
  for (const callout_buffer& result : results.first(results.size() - 1)) {
    if (result.size_bytes > 0) std::memset(result.data, 0, result.size_bytes);
  }
  return OkStatus();
}

Result<BoundCallback> FindCallback(const CallAttributes& attributes) {
  if (!attributes.library) return Registry::Get().FindBound(attributes.callback, attributes.names);
  const auto& [bytes, digest, platform, symbol] = *attributes.library;
  CALLOUT_ASSIGN_OR_RETURN(auto loaded,
                           LoadEmbeddedFunction(std::string(attributes.callback), {bytes, digest, platform, symbol}));
  return BoundCallback{std::move(loaded), nullptr};
}

Status CallSite::Decode(const XLA_FFI_Attrs& attrs) {
  std::optional<std::string> jax_name;
  CALLOUT_ASSIGN_OR_RETURN(const CallAttributes attributes, DecodeCallAttributes<CallAttributes>(attrs, jax_name));
  return Decode(attributes, jax_name.has_value());
}

Status CallSite::Decode(const CallAttributes& attributes, bool lowered_by_jax) {
  device_ = BindingScope::Device();
  ordered_ = attributes.ordered;
  deferred_ = attributes.deferred;
  threaded_ = attributes.threaded;
  aliases_ = Aliases(attributes.aliases);
  CALLOUT_ASSIGN_OR_RETURN(BoundCallback bound, FindCallback(attributes));
  label_ = bound.callback->label();
  CALLOUT_ASSIGN_OR_RETURN(lanes_, Lanes::Of(attributes));
  if (bound.callback->takes_taps_only()) {
    if (!lowered_by_jax) return CalledSink(attributes.callback);
    tapped_ = std::make_unique<TappedCall>(bound.callback);
    bound.name = nullptr;  // a tap stays with its sink when the name is rebound
  }
  name_ = std::move(bound.name);
  if (name_ == nullptr) callback_ = std::move(bound.callback);
  is_plain_ = lanes_.empty() && aliases_.empty() && tapped_ == nullptr;
  return attributes_.Decode(attributes.attributes);
}

Status CallSite::CallNamed(XLA_FFI_CallFrame* frame, const callout_call& call) const {
  const std::shared_ptr<Callback> callback = name_->callback();
  return callback->takes_taps_only() ? CalledSink(callback->label()) : Call(frame, *callback, call);
}

Status CallSite::Call(XLA_FFI_CallFrame* frame, Callback& callback, const callout_call& call) const {
  // Taps before this call in program order are delivered before it.
  if (ordered_) Delivery::Get().DrainDevice(callback, call.device_ordinal, call.run_id);
  if (is_plain_) [[likely]]
    return Invoke(callback, call);
  if (tapped_ != nullptr) return tapped_->Push(call);
  if (!lanes_.empty()) return lanes_.Call(frame, callback, aliases_, call);
  CALLOUT_RETURN_IF_ERROR(aliases_.Check(call));
  aliases_.Apply(call);
  return Invoke(callback, call);
}

Status CallSite::Run(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args,
                     std::span<const callout_buffer> results, int32_t device_ordinal) const {
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(args.size());
  call.num_results = static_cast<uint32_t>(results.size());
  call.args = args.data();
  call.results = results.data();
  const SeenRun run = FindRun(RunId(frame));
  call.run_id = run.id;
  call.device_ordinal = device_ordinal >= 0 ? device_ordinal : device_ >= 0 ? device_ : DeviceOrdinal(frame);
  call.error_context = frame;
  call.attributes = attributes_.view().data();
  call.num_attributes = static_cast<uint32_t>(attributes_.view().size());
  call.context = run.context;
  if (!deferred_) [[likely]]
    return name_ == nullptr ? Call(frame, *callback_, call) : CallNamed(frame, call);
  if (call.num_results > 0) --call.num_results;
  return Defer(name_ == nullptr ? Call(frame, *callback_, call) : CallNamed(frame, call), results);
}

}  // namespace callout::internal
