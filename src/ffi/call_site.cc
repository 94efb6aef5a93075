// SPDX-License-Identifier: Apache-2.0
#include "ffi/call_site.h"

#include "delivery/delivery.h"
#include "ffi/deferral.h"
#include "ffi/find_callback.h"
#include "registry/binding_scope.h"
#include "registry/invoke.h"

namespace callout::internal {

Status CallSite::Decode(const XLA_FFI_Attrs& attrs) {
  CALLOUT_ASSIGN_OR_RETURN(const int64_t ordered, Int64Attribute(attrs, "ordered", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t deferred, Int64Attribute(attrs, "deferred", 0));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t threaded, Int64Attribute(attrs, "threaded", 0));
  device_ = BindingScope::Device();
  ordered_ = ordered != 0;
  deferred_ = deferred != 0;
  threaded_ = threaded != 0;
  CALLOUT_ASSIGN_OR_RETURN(callback_, FindCallback(attrs));
  CALLOUT_RETURN_IF_ERROR(attributes_.Decode(attrs, "attributes"));
  CALLOUT_RETURN_IF_ERROR(lanes_.Decode(attrs));
  return aliases_.Decode(attrs);
}

Status CallSite::Call(XLA_FFI_CallFrame* frame, const callout_call& call) const {
  if (!lanes_.empty()) return lanes_.Call(frame, *callback_, aliases_, call);
  if (!aliases_.empty()) {
    CALLOUT_RETURN_IF_ERROR(aliases_.Check(call));
    aliases_.Apply(call);
  }
  return Invoke(*callback_, call);
}

Status CallSite::Run(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args,
                     std::span<const callout_buffer> results) const {
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(args.size());
  call.num_results = static_cast<uint32_t>(results.size());
  call.args = args.data();
  call.results = results.data();
  call.run_id = RunId(frame);
  call.device_ordinal = device_ >= 0 ? device_ : DeviceOrdinal(frame);
  call.error_context = frame;
  call.attributes = attributes_.view().data();
  call.num_attributes = static_cast<uint32_t>(attributes_.view().size());
  // Taps before this call in program order are heard before it.
  if (ordered_) Delivery::Get().DrainDevice(*callback_, call.device_ordinal, call.run_id);
  if (!deferred_) [[likely]]
    return Call(frame, call);
  if (call.num_results > 0) --call.num_results;
  return Defer(Call(frame, call), results);
}

}  // namespace callout::internal
