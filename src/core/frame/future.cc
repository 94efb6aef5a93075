// SPDX-License-Identifier: Apache-2.0
#include "core/frame/future.h"

namespace callout::internal {

Result<Future> Future::Promise(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Future_Create_Args args = {XLA_FFI_Future_Create_Args_STRUCT_SIZE, nullptr, nullptr};
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, frame->api->XLA_FFI_Future_Create(&args)));
  frame->future = args.future;
  return Future(frame->api, args.future);
}

void Future::End(const Status& outcome) const {
  // What these calls may fail with is a wrong size of their arguments.
  if (outcome.ok()) {
    XLA_FFI_Future_SetAvailable_Args args = {XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, nullptr, future_};
    (void)FromFfiError(api_, api_->XLA_FFI_Future_SetAvailable(&args));
    return;
  }
  XLA_FFI_Future_SetError_Args args = {XLA_FFI_Future_SetError_Args_STRUCT_SIZE, nullptr, future_,
                                       ToFfiError(api_, outcome)};
  (void)FromFfiError(api_, api_->XLA_FFI_Future_SetError(&args));
}

}  // namespace callout::internal
