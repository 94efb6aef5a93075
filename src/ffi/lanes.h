// SPDX-License-Identifier: Apache-2.0
//
// A call that stands for many: a batch whose lanes run side by side on XLA's threads.
#pragma once

#include <cstdint>
#include <vector>

#include "callout/abi.h"
#include "ffi/aliases.h"
#include "frame/ffi_abi.h"
#include "registry/callback.h"

namespace callout::internal {

/// The batch of a call site. The extents of the batch come first in the shape of every operand that has them.
class Lanes {
 public:
  /// Reads attributes `lane_dims` (s64[n]: extents of the batch, outermost first) and `lane_masks` (s64[m]: for each
  /// operand, which of them it has, bit i standing for the i-th; results have all). Stays empty if there are none.
  Status Decode(const XLA_FFI_Attrs& attrs);

  bool empty() const { return extents_.empty(); }

  /// Calls `callback` once a lane, with the lane's part of every buffer, after `aliases`. Returns when all have run: on
  /// this thread and on those of the pool that come to help. The error is that of the first lane that failed; the lanes
  /// before it have run.
  Status Call(XLA_FFI_CallFrame* frame, Callback& callback, const Aliases& aliases, const callout_call& call) const;

 private:
  friend class LaneCall;

  std::vector<int64_t> extents_;
  std::vector<int64_t> masks_;
};

}  // namespace callout::internal
