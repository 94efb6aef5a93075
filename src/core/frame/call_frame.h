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

/// The attributes of a call, copied from a dictionary of XLA. The C view points into this object.
class Attributes {
 public:
  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  /// Copies the attributes. Null leaves the view empty. InvalidArgument for a nested dictionary. Call once.
  Status Decode(const XLA_FFI_Attrs* dictionary);

  /// Returns the attributes, sorted by name. Borrowed: valid as long as this object.
  std::span<const callout_attribute> view() const { return view_; }

 private:
  const char* Keep(const void* data, size_t size);

  std::deque<std::string> kept_;  // NUL-terminated; data on the heap is 16-byte aligned
  std::vector<callout_attribute> view_;
};

// The functions below leave tokens out of the buffers, because tokens carry no data.

/// Writes the data buffers of `args` to `out`, which has room for `args.size`, and sets `decoded` to them.
/// InvalidArgument for an unknown element type, whose size in bytes is unknown. Borrowed: `out` is valid until the
/// handler returns.
Status DecodeArgs(const XLA_FFI_Args& args, callout_buffer* out, std::span<const callout_buffer>& decoded);
Status DecodeRets(const XLA_FFI_Rets& rets, callout_buffer* out, std::span<const callout_buffer>& decoded);

/// Decodes both, and sets them as the operands and the results of `call`.
Status DecodeFrame(const XLA_FFI_CallFrame& frame, callout_buffer* args, callout_buffer* results, callout_call& call);

}  // namespace callout::internal
