// SPDX-License-Identifier: Apache-2.0
//
// A call that stands for many: the lanes of a batch, which run in parallel on XLA's threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "callout/abi.h"
#include "core/attributes/site_attributes.h"
#include "core/callbacks/callback.h"
#include "core/ffi/aliases.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// The batch of a call site. The extents of the batch come first in the shape of every operand that has them.
class Lanes {
 public:
  /// Decodes the extents and masks. InvalidArgument if no batch can have the extents.
  static Result<Lanes> Of(const LaneAttributes& attributes);

  bool empty() const { return extents_.empty(); }
  /// Returns the number of lanes; 1 for no batch dimensions.
  int64_t count() const;
  std::span<const int64_t> extents() const { return extents_; }
  std::span<const int64_t> masks() const { return masks_; }

  /// Calls `callback` once for each lane, with the lane's part of every buffer, after applying `aliases`. Blocks until
  /// all lanes have run, on this thread and on threads of the pool. Returns the error of the first lane that failed;
  /// the lanes before it have run.
  Status Call(XLA_FFI_CallFrame* frame, Callback& callback, const Aliases& aliases, const callout_call& call) const;

 private:
  std::vector<int64_t> extents_;
  std::vector<int64_t> masks_;
};

/// The buffers of a whole batch, and the offsets of each lane's parts. Thread-safe.
class LaneParts {
 public:
  /// Prepares the parts. InvalidArgument if an operand does not have the extents that `lanes` declares, or has elements
  /// of less than a byte. Borrowed: valid as long as `lanes` and the buffers of `whole`.
  static Result<LaneParts> Of(const Lanes& lanes, const callout_call& whole);

  /// Returns the number of buffers of one lane's call.
  size_t size() const { return operands_.size(); }
  /// Returns the call of one lane. Its buffers are in `parts`, which must have room for size().
  callout_call Call(int64_t lane, callout_buffer* parts) const;

 private:
  struct Operand {
    callout_buffer part;           // buffer of lane 0
    std::vector<uint64_t> stride;  // bytes for each extent of the batch; 0 if the operand lacks the extent
  };

  LaneParts(std::span<const int64_t> extents, const callout_call& whole) : extents_(extents), whole_(whole) {}
  Status Add(const callout_buffer& whole, int64_t mask);
  uint64_t Offset(const Operand& operand, int64_t lane) const;

  std::span<const int64_t> extents_;
  callout_call whole_;
  std::vector<Operand> operands_;
};

}  // namespace callout::internal
