// SPDX-License-Identifier: Apache-2.0
//
// XLA's promise of a handler that returns before its call is over.
#pragma once

#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// The end of one call. XLA goes on with the program on the thread that ends it, for as long as the program takes, and
/// with that thread's floating-point modes. Copies are of the same promise.
class Future {
 public:
  /// Promises that the call of `frame` ends later: its handler returns no error, and what lies in the frame's buffers
  /// stays until then. The frame itself does not. Only the handler's own thread may call this.
  static Result<Future> Promise(XLA_FFI_CallFrame* frame);

  /// Ends the call, as `outcome` says. Call once, on any thread.
  void End(const Status& outcome) const;

 private:
  Future(const XLA_FFI_Api* api, XLA_FFI_Future* future) : api_(api), future_(future) {}

  const XLA_FFI_Api* api_;
  XLA_FFI_Future* future_;
};

}  // namespace callout::internal
