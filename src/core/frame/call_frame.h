// SPDX-License-Identifier: Apache-2.0
//
// XLA's call frame as the C view that callbacks get: the buffers, and the constants that a program passes by name.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Owns what it was decoded from; the C view points into it.
class Attributes {
 public:
  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  /// Stays empty for null. InvalidArgument for a nested dictionary. Call once.
  Status Decode(const XLA_FFI_Attrs* dictionary);

  /// Sorted by name. Borrowed: valid as long as this object.
  std::span<const callout_attribute> view() const { return view_; }

 private:
  const char* Keep(const void* data, size_t size);

  std::deque<std::string> kept_;  // NUL-terminated, 16-byte aligned where it matters: strings on the heap are
  std::vector<callout_attribute> view_;
};

// Tokens carry no data and are left out of the buffers.

/// Writes the data buffers of `args` to `out`, which has room for `args.size`; `decoded` are those. InvalidArgument for
/// an element type that is not known, of which nobody could say how many bytes it has.
/// Borrowed: `out` is valid until the handler returns.
Status DecodeArgs(const XLA_FFI_Args& args, callout_buffer* out, std::span<const callout_buffer>& decoded);
Status DecodeRets(const XLA_FFI_Rets& rets, callout_buffer* out, std::span<const callout_buffer>& decoded);

/// Both, as the operands and the results of `call`.
Status DecodeFrame(const XLA_FFI_CallFrame& frame, callout_buffer* args, callout_buffer* results, callout_call& call);

}  // namespace callout::internal
