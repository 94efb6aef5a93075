// SPDX-License-Identifier: Apache-2.0
//
// Objects of the host that programs read by a handle, and the arrays that a read returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/attributes/site_attributes.h"
#include "core/base/live_count.h"

namespace callout::internal {

/// A dense, row-major array on the host.
struct CALLOUT_EXPORT HostArray {
  uint32_t dtype = 0;  // XLA's number of the element type
  std::vector<int64_t> dims;
  std::vector<std::byte> data;

  static HostArray CopyOf(const callout_buffer& buffer);
  /// Returns a view. Borrowed: valid while the array lives and does not change.
  callout_buffer view() const;
};

/// The arrays that one read of an object returns. They never change.
using Answer = std::shared_ptr<const std::vector<HostArray>>;

/// The memory for the arrays of one object. In a batch, `results` hold the arrays of `lanes` objects one after another,
/// and this object is number `lane`.
struct Wanted {
  std::span<const callout_buffer> results;
  uint64_t lane = 0;
  uint64_t lanes = 1;
};

/// Copies `arrays` to the memory that `wanted` describes. Returns InvalidArgument if the number, the types or the sizes
/// of `arrays` do not fit `wanted`.
CALLOUT_EXPORT Status Write(std::span<const HostArray> arrays, const Wanted& wanted);

/// An object that a handle stands for. Thread-safe.
class CALLOUT_EXPORT HostObject {
 public:
  virtual ~HostObject() = default;
  virtual HandleKind kind() const = 0;
  /// Returns the object's current arrays, whose number, types and shapes never change; null for an object that programs
  /// cannot read. GIL not needed.
  virtual Answer Read() const { return nullptr; }
  /// Copies the current arrays by Write, without the reference that Read returns. Returns InvalidArgument for an object
  /// that programs cannot read. GIL not needed.
  virtual Status ReadInto(const Wanted& wanted) const;

 private:
  Counted<LiveKind::kHostObject> counted_;
};

}  // namespace callout::internal
