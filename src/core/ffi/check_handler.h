// SPDX-License-Identifier: Apache-2.0
//
// What callout.v1.check is called with, wherever its buffers are.
// check_handler.cc has the handler for CPUs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "callout/abi.h"
#include "core/base/small_buffer.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// The buffers of one check. One thread.
struct CheckFrame {
  explicit CheckFrame(XLA_FFI_CallFrame* frame)
      : operands(static_cast<size_t>(frame->args.size)), outputs(static_cast<size_t>(frame->rets.size)) {}

  /// InvalidArgument unless they are a status, values, and results like those.
  Status Decode(XLA_FFI_CallFrame* frame);

  /// Has `copy(to, from, bytes)` make results of the values. XLA lets a value and its result be one buffer where
  /// nothing else reads the operand.
  template <typename Copy>
  Status PassOn(Copy&& copy) {
    for (size_t i = 0; i < results.size(); ++i) {
      const callout_buffer& from = args[i + 1];
      if (from.data == results[i].data || from.size_bytes == 0) continue;
      CALLOUT_RETURN_IF_ERROR(copy(results[i].data, from.data, from.size_bytes));
    }
    return OkStatus();
  }

  SmallBuffer<callout_buffer, 16> operands;
  SmallBuffer<callout_buffer, 8> outputs;
  std::span<const callout_buffer> args;
  std::span<const callout_buffer> results;
};

/// The failure of this number, which is not 0, of the callback that programs call `name`. Thread-safe.
Status FailureOf(int32_t number, std::string_view name);

}  // namespace callout::internal
