// SPDX-License-Identifier: Apache-2.0
//
// What a program says of one call of a callback, wherever its buffers are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/attributes/call_attributes.h"
#include "core/callbacks/callback.h"
#include "core/ffi/aliases.h"
#include "core/ffi/lanes.h"
#include "core/ffi/tapped_call.h"
#include "core/frame/attributes.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// The callback that a call names, or brings along. NotFound for a name that is not bound. Thread-safe.
Result<std::shared_ptr<Callback>> FindCallback(const CallAttributes& attributes);

/// What callout.v1.call is told. Thread-safe once it was decoded. GIL not needed.
class CallSite {
 public:
  /// Finds the callback, too. Call once.
  Status Decode(const XLA_FFI_Attrs& attrs);
  Status Decode(const CallAttributes& said, bool lowered_by_jax = false);

  const Callback& callback() const { return *callback_; }
  /// Whether the first operand and the first result are a token, which is no part of the call.
  bool threaded() const { return threaded_; }

  /// Runs the callback, once or once a lane, on buffers of the host without the token. Afterwards all results are
  /// written, unless an error is returned. Blocks as long as the callback does, and takes the GIL if that needs it.
  /// `device_ordinal`: the device that is said to call; -1: what the host or the runtime tells.
  Status Run(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args, std::span<const callout_buffer> results,
             int32_t device_ordinal = -1) const;

 private:
  Status Call(XLA_FFI_CallFrame* frame, const callout_call& call) const;

  std::shared_ptr<Callback> callback_;
  std::unique_ptr<TappedCall> tapped_;  // null: it is called
  bool is_plain_ = false;               // nothing to do but to call it
  bool ordered_ = false;
  bool deferred_ = false;
  bool threaded_ = false;
  Attributes attributes_;
  Lanes lanes_;
  Aliases aliases_;
  int32_t device_ = -1;  // -1: what the runtime tells
};

}  // namespace callout::internal
