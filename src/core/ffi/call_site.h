// SPDX-License-Identifier: Apache-2.0
//
// One call of a callback by a program (CallSite), and the call of a taps-only callback from a program without taps
// (TappedCall): JAX lowers debug callbacks as calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/attributes/site_attributes.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "core/ffi/aliases.h"
#include "core/ffi/lanes.h"
#include "core/frame/call_frame.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// A call whose operands become the record of a tap. Thread-safe.
class TappedCall {
 public:
  explicit TappedCall(std::shared_ptr<Callback> callback) : callback_(std::move(callback)) {}
  ~TappedCall();
  TappedCall(const TappedCall&) = delete;
  TappedCall& operator=(const TappedCall&) = delete;

  /// Queues the operands like a tap. Returns FailedPrecondition for a call with results, and InvalidArgument if the
  /// number of operands differs from the first call's.
  Status Push(const callout_call& call);

 private:
  Status MakeSite(size_t num_leaves);

  const std::shared_ptr<Callback> callback_;
  std::once_flag made_;
  Status unmade_;                  // the reason why there is no site
  std::unique_ptr<TapSite> site_;  // has as many leaves as the first call had operands
};

// CallSite holds the attributes and the callback of one call; CallOperands holds the buffers of one execution, which
// may be on any platform. The attributes `threaded` and `deferred` add operands and results of their own.

/// The addresses between which a threaded call copies its token, a u32. They are in the memory of the host or of a
/// device.
struct ThreadToken {
  const void* from = nullptr;
  void* to = nullptr;

  /// Copies the token. Requires that both addresses are in the host's memory.
  void CopyOnHost() const { __builtin_memcpy(to, from, sizeof(uint32_t)); }
};

/// Removes the token from the operands and from the results, and returns its addresses. Returns InvalidArgument if
/// there is no token.
Result<ThreadToken> TakeToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

/// Removes the token like TakeToken, and copies it from the operand to the result. Requires that both are in the host's
/// memory.
Status PassToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

/// The decoded operands and results of a frame. Borrowed: the frame outlives this object.
class CallOperands {
 public:
  explicit CallOperands(XLA_FFI_CallFrame* frame)
      : arg_buffers_(static_cast<size_t>(frame->args.size)), result_buffers_(static_cast<size_t>(frame->rets.size)) {}

  /// Decodes the buffers. `threaded`: the first operand and the first result are a token, which is removed. Call once.
  Status Decode(XLA_FFI_CallFrame* frame, bool threaded) {
    CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers_.data(), args_));
    CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers_.data(), results_));
    if (!threaded) return OkStatus();
    CALLOUT_ASSIGN_OR_RETURN(token_, TakeToken(&args_, &results_));
    return OkStatus();
  }
  /// Decodes the buffers like Decode, and copies the token, which must be in the host's memory. Call once.
  Status DecodeOnHost(XLA_FFI_CallFrame* frame, bool threaded) {
    CALLOUT_RETURN_IF_ERROR(Decode(frame, threaded));
    if (threaded) token_.CopyOnHost();
    return OkStatus();
  }

  std::span<const callout_buffer> args() const { return args_; }
  std::span<const callout_buffer> results() const { return results_; }
  /// Returns the token; null pointers unless threaded.
  const ThreadToken& token() const { return token_; }

 private:
  SmallBuffer<callout_buffer, 16> arg_buffers_;
  SmallBuffer<callout_buffer, 8> result_buffers_;
  std::span<const callout_buffer> args_;
  std::span<const callout_buffer> results_;
  ThreadToken token_;
};

/// Returns the number under which the failure `outcome` is kept; 0 if `outcome` is a success. Returns InvalidArgument
/// if the last of `results` is not an s32[].
Result<int32_t> DeferredNumber(const Status& outcome, std::span<const callout_buffer> results);

/// Writes the number of `outcome` (0: no failure) to the last of `results`; zeroes the other results if `outcome` is a
/// failure. Returns InvalidArgument if the last of `results` is not an s32[].
Status Defer(const Status& outcome, std::span<const callout_buffer> results);

/// Returns the callback that a call names or embeds. Returns NotFound for a name that is not bound. Thread-safe.
Result<BoundCallback> FindCallback(const CallAttributes& attributes);

/// One call of a callback in a program. Thread-safe after Decode. GIL not needed.
class CallSite {
 public:
  /// Decodes the attributes, and finds the callback. Call once.
  Status Decode(const XLA_FFI_Attrs& attrs);
  Status Decode(const CallAttributes& attributes, bool lowered_by_jax = false);

  /// Returns the label of the callback that the program was loaded with.
  const std::string& label() const { return label_; }
  /// Returns whether the first operand and the first result are a token, which is no part of the call.
  bool threaded() const { return threaded_; }

  /// Calls the callback once, or once for each lane of a batch. The buffers must be in the host's memory, and must not
  /// include the token. If Run returns no error, all results are written. Blocks until the callback returns, and takes
  /// the GIL if the callback needs it. `device_ordinal` is the device that the callback gets; -1 means the device that
  /// the host has set for the program, or else the runtime's.
  Status Run(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args, std::span<const callout_buffer> results,
             int32_t device_ordinal = -1) const;

 private:
  Status CallNamed(XLA_FFI_CallFrame* frame, const callout_call& call) const;
  Status Call(XLA_FFI_CallFrame* frame, Callback& callback, const callout_call& call) const;

  std::string label_;
  std::shared_ptr<Callback> callback_;          // null for a registered name
  std::shared_ptr<const RegisteredName> name_;  // the name whose callback is called; null: `callback_`
  std::unique_ptr<TappedCall> tapped_;          // null: the callback is called
  bool is_plain_ = false;                       // no lanes, aliases or tap
  bool ordered_ = false;
  bool deferred_ = false;
  bool threaded_ = false;
  Attributes attributes_;
  Lanes lanes_;
  Aliases aliases_;
  int32_t device_ = -1;  // -1: the runtime's
};

}  // namespace callout::internal
