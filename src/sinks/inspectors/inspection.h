// SPDX-License-Identifier: Apache-2.0
//
// The common base of watches, checks and locate_nans: a callback that inspects a tap's arrays in place, fails the
// program or has a message logged, and sends no record. A program carries each of them as a name with a payload
// (payload.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// The most extents that a batch may have.
inline constexpr int64_t kMostExtents = 16;

class Inspection : public Callback, public Inspector {
 public:
  /// `subject` is the name in errors, such as "a check"; it must be static. `lane_masks` has one mask for each operand.
  /// Bit i means that the operand's leading dimensions include the batch's i-th extent. Without masks, taps may have
  /// any number of arrays, and no batch.
  Inspection(std::string label, std::string_view subject, std::vector<uint32_t> lane_masks);

  // Delivers on the Python worker, because notices may go to Python's loggers, which need the interpreter.
  Worker worker() const override { return Worker::kPython; }
  Inspector* inspector() final { return this; }
  Status Call(const callout_call& call) final;
  Status CheckTap(size_t num_leaves) const final;
  /// Logs the text that Notice received.
  Status Deliver(const Record& record) final;

 protected:
  /// Keeps `text` for the log, and returns the value that Inspect then returns. The text is logged when the notice is
  /// delivered. Thread-safe.
  Send Notice(std::string text);
  /// Checks that there is an operand for each mask, that no operand packs several elements into a byte, and that each
  /// operand has a dimension for each extent in its mask.
  Status CheckOperands(std::span<const callout_buffer> buffers) const;

  std::string_view subject() const { return subject_; }
  const std::vector<uint32_t>& lane_masks() const { return lane_masks_; }

 private:
  const std::string_view subject_;
  const std::vector<uint32_t> lane_masks_;
  Mutex mutex_;
  std::vector<std::string> notices_ CALLOUT_GUARDED_BY(mutex_);
};

/// Returns the masks of a payload for a batch of `extents` extents, or nothing if a mask has another extent.
std::optional<std::vector<uint32_t>> LaneMasks(std::span<const int64_t> masks, int64_t extents);

inline bool HasExtent(uint32_t mask, size_t extent) { return (mask >> extent & 1U) != 0; }

/// Returns the number of the operand's first axis among the axes of all operands of the record.
size_t FirstAxis(const Record& record, size_t operand);

/// Returns where this device's shard begins along an axis of the whole value; 0 if the device has the whole value.
/// `axis` counts over the axes of all operands.
inline int64_t Begin(const Record& record, size_t axis) {
  return axis < record.offsets.size() ? record.offsets[axis] : 0;
}

/// Returns an element's index in the whole value. `flat` is the row-major index in the part of the operand that this
/// device has.
std::vector<int64_t> WholeIndex(const Record& record, size_t operand, int64_t flat);

/// Returns the part of an operand with these leading indices, which count in the whole value. Returns nothing if
/// another device has the part. Requires that the elements are whole bytes. Borrowed: valid as long as the record.
std::optional<callout_buffer> PartBehind(const Record& record, size_t operand, std::span<const int64_t> indices);

}  // namespace callout::internal
