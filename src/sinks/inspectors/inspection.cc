// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/inspection.h"

#include <bit>
#include <utility>

#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/frame/buffer.h"

namespace callout::internal {

Inspection::Inspection(std::string label, std::string_view subject, std::vector<uint32_t> lane_masks)
    : Callback(std::move(label)), subject_(subject), lane_masks_(std::move(lane_masks)) {}

Status Inspection::Call(const callout_call& /*call*/) {
  return FailedPrecondition(Cat(subject_, " looks at taps; it cannot be called for a result"));
}

Status Inspection::CheckTap(size_t num_leaves) const {
  if (lane_masks_.empty() || num_leaves == lane_masks_.size()) return OkStatus();
  return InvalidArgument(Cat("callout: ", subject_, " of ", lane_masks_.size(), " arrays got ", num_leaves));
}

Status Inspection::Deliver(const Record& /*record*/) {
  std::vector<std::string> notices;
  {
    MutexLock lock(mutex_);
    notices.swap(notices_);
  }
  for (const std::string& notice : notices) Log(LogLevel::kWarning, notice);
  return OkStatus();
}

Inspector::Send Inspection::Notice(std::string text) {
  MutexLock lock(mutex_);
  notices_.push_back(std::move(text));
  return Send::kNotice;
}

Status Inspection::CheckOperands(std::span<const callout_buffer> buffers) const {
  if (buffers.size() != lane_masks_.size()) [[unlikely]]
    return CheckTap(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto problem = [&](std::string_view what) {
      return InvalidArgument(Cat("callout: operand ", i, " of ", subject_, ", ", ShapeString(buffers[i]), ", ", what));
    };
    if (BitWidth(static_cast<DType>(buffers[i].dtype)) % 8 != 0) return problem("packs elements into bytes");
    const uint32_t lanes = lane_masks_[i];
    if (lanes != 0 && buffers[i].rank < static_cast<uint32_t>(std::popcount(lanes)))
      return problem("has fewer dimensions than its program says");
  }
  return OkStatus();
}

std::optional<std::vector<uint32_t>> LaneMasks(std::span<const int64_t> masks, int64_t extents) {
  std::vector<uint32_t> lanes;
  for (const int64_t mask : masks) {
    if (mask < 0 || mask >= int64_t{1} << extents) return std::nullopt;
    lanes.push_back(static_cast<uint32_t>(mask));
  }
  return lanes;
}

size_t FirstAxis(const Record& record, size_t operand) {
  size_t axes = 0;
  for (size_t i = 0; i < operand; ++i) axes += record.buffers[i].rank;
  return axes;
}

std::vector<int64_t> WholeIndex(const Record& record, size_t operand, int64_t flat) {
  std::vector<int64_t> index = Unravel(flat, record.buffers[operand]);
  const size_t first = FirstAxis(record, operand);
  for (size_t axis = 0; axis < index.size(); ++axis) index[axis] = StepAfter(Begin(record, first + axis), index[axis]);
  return index;
}

std::optional<callout_buffer> PartBehind(const Record& record, size_t operand, std::span<const int64_t> indices) {
  callout_buffer part = record.buffers[operand];
  if (indices.size() > part.rank) return std::nullopt;
  const size_t first = FirstAxis(record, operand);
  uint64_t flat = 0;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const auto extent = static_cast<uint64_t>(part.dims[axis]);
    // Unsigned arithmetic cannot overflow; a program's offsets may be anything.
    const uint64_t local = static_cast<uint64_t>(indices[axis]) - static_cast<uint64_t>(Begin(record, first + axis));
    if (local >= extent) return std::nullopt;
    flat = flat * extent + local;
  }
  part.dims += indices.size();
  part.rank -= static_cast<uint32_t>(indices.size());
  part.size_bytes = PackedBytes(static_cast<DType>(part.dtype), ElementCount(part));
  part.data = static_cast<char*>(part.data) + flat * part.size_bytes;
  return part;
}

}  // namespace callout::internal
