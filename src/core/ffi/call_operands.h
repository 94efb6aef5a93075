// SPDX-License-Identifier: Apache-2.0
//
// What a call is made with: its frame's buffers without its token.
#pragma once

#include <span>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/base/small_buffer.h"
#include "core/ffi/thread_token.h"
#include "core/frame/call_frame.h"

namespace callout::internal {

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

}  // namespace callout::internal
