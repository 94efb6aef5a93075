// SPDX-License-Identifier: Apache-2.0
//
// One call of a callback by a program (CallSite), and the call of what takes taps alone from a program that has no
// taps (TappedCall): JAX lowers debug callbacks as calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/attributes/site_attributes.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/callback.h"
#include "core/delivery/delivery.h"
#include "core/ffi/aliases.h"
#include "core/ffi/lanes.h"
#include "core/frame/call_frame.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Thread-safe.
class TappedCall {
 public:
  explicit TappedCall(std::shared_ptr<Callback> callback) : callback_(std::move(callback)) {}
  ~TappedCall();
  TappedCall(const TappedCall&) = delete;
  TappedCall& operator=(const TappedCall&) = delete;

  /// Queues the operands, as a tap does. FailedPrecondition for a call with results; InvalidArgument for another number
  /// of operands than the first call had.
  Status Push(const callout_call& call);

 private:
  Status MakeSite(size_t num_leaves);

  const std::shared_ptr<Callback> callback_;
  std::once_flag made_;
  Status unmade_;                  // why there is no site
  std::unique_ptr<TapSite> site_;  // of as many leaves as the first call has operands
};

// CallSite holds what a program says of one call of a callback: its operands, and the attributes `threaded` and
// `deferred`. The buffers may be on any platform.

/// Where the token is, and where it goes: u32s of the host or of a device.
struct ThreadToken {
  const void* from = nullptr;
  void* to = nullptr;

  /// Copies the token in the host's memory.
  void CopyOnHost() const { __builtin_memcpy(to, from, sizeof(uint32_t)); }
};

/// Takes the token off the operands and off the results. InvalidArgument where there is none.
Result<ThreadToken> TakeToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

/// TakeToken, and copies it on the host.
Status PassToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

/// Borrowed: the frame outlives it.
class CallOperands {
 public:
  explicit CallOperands(XLA_FFI_CallFrame* frame)
      : arg_buffers_(static_cast<size_t>(frame->args.size)), result_buffers_(static_cast<size_t>(frame->rets.size)) {}

  /// Call once. `threaded`: the first operand and the first result are a token, which is taken off.
  Status Decode(XLA_FFI_CallFrame* frame, bool threaded) {
    CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers_.data(), args_));
    CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers_.data(), results_));
    if (!threaded) return OkStatus();
    CALLOUT_ASSIGN_OR_RETURN(token_, TakeToken(&args_, &results_));
    return OkStatus();
  }
  /// The same, and copies the token on the host.
  Status DecodeOnHost(XLA_FFI_CallFrame* frame, bool threaded) {
    CALLOUT_RETURN_IF_ERROR(Decode(frame, threaded));
    if (threaded) token_.CopyOnHost();
    return OkStatus();
  }

  std::span<const callout_buffer> args() const { return args_; }
  std::span<const callout_buffer> results() const { return results_; }
  /// Null pointers unless threaded.
  const ThreadToken& token() const { return token_; }

 private:
  SmallBuffer<callout_buffer, 16> arg_buffers_;
  SmallBuffer<callout_buffer, 8> result_buffers_;
  std::span<const callout_buffer> args_;
  std::span<const callout_buffer> results_;
  ThreadToken token_;
};

/// The number of `outcome`, which is kept if it is a failure. InvalidArgument if there is no s32[] at the end of
/// `results`.
Result<int32_t> DeferredNumber(const Status& outcome, std::span<const callout_buffer> results);

/// Writes the number of `outcome` (0: no failure) to the last of `results`; zeroes the others if it failed.
/// InvalidArgument if there is no s32[] at the end.
Status Defer(const Status& outcome, std::span<const callout_buffer> results);

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
