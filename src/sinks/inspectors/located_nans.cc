// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/located_nans.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "callout/dtype.h"
#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/frame/buffer.h"
#include "sinks/inspectors/located_nans_payload.h"
#include "sinks/inspectors/non_finite.h"
#include "sinks/text/formatted_array.h"

namespace callout::internal {
namespace {

constexpr size_t kInputsShown = 6;
constexpr int64_t kElementsShown = 4;
constexpr uint64_t kRunsReported = 10;       // each of them; then less and less often
constexpr int64_t kLanesExamined = 1 << 20;  // at least, of lanes that no operand has all of

std::atomic<LocatedNansReporter> g_reporter{nullptr};

bool HasLanes(uint32_t mask, size_t extent) { return (mask >> extent & 1U) != 0; }

// One lane's part of an operand.
struct Part {
  callout_buffer buffer = {};
  size_t lane_rank = 0;  // dimensions of the operand that are in front of it
};

// What a lane's operands are, and what is bad in them.
struct Finding {
  std::vector<int64_t> lane;
  size_t result = 0;
  bool is_nan = false;
  bool from_infinite = false;
  int64_t first = 0;  // the row-major place in the result's part
};

// The lanes of the results that this device has, and what of the operands belongs to one. Over several devices operands
// may be divided otherwise than results are: what of them is elsewhere cannot be looked at.
class Lanes {
 public:
  Lanes(const LocatedNansText& text, const Record& record) : text_(text), record_(record) {
    axes_.assign(static_cast<size_t>(text.num_extents), Axis{});
    size_t offset = 0;
    for (size_t i = 0; i < text.lane_masks.size(); offset += record.buffers[i++].rank) {
      const bool is_result = i >= text.num_live && i < text.num_live + text.operations.size();
      size_t axis = 0;
      for (size_t extent = 0; extent < axes_.size(); ++extent) {
        if (!HasLanes(text.lane_masks[i], extent)) continue;
        const size_t at = axis++;
        if (axes_[extent].is_known && (axes_[extent].is_of_result || !is_result)) continue;
        axes_[extent] = {record.buffers[i].dims[at], OffsetAt(offset + at), true, is_result};
      }
    }
    for (const Axis& axis : axes_) {
      if (count_ >= 0 && __builtin_mul_overflow(count_, axis.extent, &count_)) count_ = -1;
    }
  }

  // Negative for more than a number can tell.
  int64_t count() const { return count_; }

  // Operands with lanes of different extents, or without elements, can tell of more lanes than anybody can wait for.
  int64_t examined() const {
    int64_t held = 0;
    for (const callout_buffer& buffer : record_.buffers) held += ElementCount(buffer);
    return std::min(count_, std::max(kLanesExamined, held));
  }

  std::vector<int64_t> At(int64_t flat) const {
    std::vector<int64_t> lane(axes_.size());
    for (size_t i = lane.size(); i-- > 0; flat /= axes_[i].extent) lane[i] = flat % axes_[i].extent;
    return lane;
  }

  // The numbers that a lane of this device has in the whole value.
  std::vector<int64_t> NumbersOf(std::vector<int64_t> lane) const {
    for (size_t i = 0; i < lane.size(); ++i) lane[i] = StepAfter(axes_[i].begin, lane[i]);
    return lane;
  }

  // Nothing if it is not on this device.
  std::optional<Part> PartOf(size_t operand, const std::vector<int64_t>& lane) const {
    Part part = {.buffer = record_.buffers[operand]};
    size_t offset = 0;
    for (size_t i = 0; i < operand; ++i) offset += record_.buffers[i].rank;
    uint64_t flat = 0;
    for (size_t extent = 0; extent < lane.size(); ++extent) {
      if (!HasLanes(text_.lane_masks[operand], extent)) continue;
      const auto here = static_cast<uint64_t>(part.buffer.dims[part.lane_rank]);
      const uint64_t place = static_cast<uint64_t>(lane[extent]) + static_cast<uint64_t>(axes_[extent].begin) -
                             static_cast<uint64_t>(OffsetAt(offset + part.lane_rank++));
      if (place >= here) return std::nullopt;
      flat = flat * here + place;
    }
    part.buffer.dims += part.lane_rank;
    part.buffer.rank -= static_cast<uint32_t>(part.lane_rank);
    part.buffer.size_bytes = PackedBytes(static_cast<DType>(part.buffer.dtype), ElementCount(part.buffer));
    part.buffer.data = static_cast<char*>(part.buffer.data) + flat * part.buffer.size_bytes;
    return part;
  }

 private:
  struct Axis {
    int64_t extent = 1;
    int64_t begin = 0;  // in the whole value
    bool is_known = false;
    bool is_of_result = false;
  };
  int64_t OffsetAt(size_t axis) const { return axis < record_.offsets.size() ? record_.offsets[axis] : 0; }

  const LocatedNansText& text_;
  const Record& record_;
  std::vector<Axis> axes_;
  int64_t count_ = 1;
};

class LocatedNans final : public Callback, public Inspector {
 public:
  LocatedNans(std::string label, LocatedNansText text) : Callback(std::move(label)), text_(std::move(text)) {}

  Worker worker() const override { return Worker::kNative; }
  Inspector* inspector() override { return this; }
  Status Call(const callout_call& /*call*/) override {
    return FailedPrecondition("locate_nans looks at taps; it cannot be called for a result");
  }
  Status CheckTap(size_t num_leaves) const override {
    if (num_leaves == text_.lane_masks.size()) return OkStatus();
    return InvalidArgument("callout: locate_nans of " + std::to_string(text_.lane_masks.size()) + " arrays got " +
                           std::to_string(num_leaves));
  }
  Status Deliver(const Record& /*record*/) override { return OkStatus(); }
  Result<Send> Inspect(const Record& record) override;
  bool Passes(std::span<const callout_buffer> buffers) override {
    return buffers.size() == text_.lane_masks.size() && AreGood(buffers);
  }

 private:
  size_t first_result() const { return text_.num_live; }
  size_t first_input() const { return first_result() + text_.operations.size(); }
  size_t first_step() const { return first_input() + text_.num_inputs; }
  NonFiniteChecks checks() const { return {.nan = true, .infinite = text_.infinities}; }

  bool AreGood(std::span<const callout_buffer> buffers) const;
  Status Validate(const Record& record) const;
  Result<Send> Examine(const Record& record);
  std::optional<Finding> FindIn(const Record& record) const;
  std::optional<Finding> FindInLane(const Lanes& lanes, std::vector<int64_t> lane) const;
  bool IsToBeReported(const Record& record);
  std::string Describe(const Record& record, const Finding& finding) const;
  void DescribeInputs(const Lanes& lanes, const Finding& finding, const callout_buffer& result, std::string& out) const;

  const LocatedNansText text_;
  Mutex mutex_;
  std::optional<int64_t> last_run_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t runs_ CALLOUT_GUARDED_BY(mutex_) = 0;
};

Result<Inspector::Send> LocatedNans::Inspect(const Record& record) {
  CALLOUT_RETURN_IF_ERROR(CheckTap(record.buffers.size()));
  if (AreGood(record.buffers)) [[likely]]
    return Send::kNothing;
  return Examine(record);
}

// Whether no result is bad, of as many arrays as the program said.
bool LocatedNans::AreGood(std::span<const callout_buffer> buffers) const {
  for (size_t i = 0; i < text_.operations.size(); ++i) {
    if (CountNonFinite(buffers[first_result() + i], checks()).first >= 0) [[unlikely]]
      return false;
  }
  return true;
}

Status LocatedNans::Validate(const Record& record) const {
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    const callout_buffer& buffer = record.buffers[i];
    if (buffer.rank < static_cast<uint32_t>(std::popcount(text_.lane_masks[i]))) {
      return InvalidArgument("callout: operand " + std::to_string(i) + " of locate_nans, " + ShapeString(buffer) +
                             ", has fewer dimensions than its program says");
    }
    if (BitWidth(static_cast<DType>(buffer.dtype)) % 8 != 0) {
      return InvalidArgument("callout: operand " + std::to_string(i) + " of locate_nans, " + ShapeString(buffer) +
                             ", packs elements into bytes");
    }
  }
  std::vector<std::optional<int64_t>> extents(static_cast<size_t>(text_.num_extents));
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    size_t axis = 0;
    for (size_t extent = 0; extent < extents.size(); ++extent) {
      if (!HasLanes(text_.lane_masks[i], extent)) continue;
      const int64_t here = record.buffers[i].dims[axis++];
      if (record.offsets.empty() && extents[extent].value_or(here) != here) {
        return InvalidArgument("callout: operand " + std::to_string(i) + " of locate_nans, " +
                               ShapeString(record.buffers[i]) + ", has other lanes than those before it");
      }
      extents[extent] = here;
    }
  }
  for (size_t i = first_step(); i < record.buffers.size(); ++i) {
    if (HasIntegers(record.buffers[i])) continue;
    return InvalidArgument("callout: a step of locate_nans must be an integer, got " + ShapeString(record.buffers[i]));
  }
  if (text_.num_live > 0) {
    const callout_buffer& live = record.buffers.front();
    const auto lane_rank = static_cast<uint32_t>(std::popcount(text_.lane_masks.front()));
    if (static_cast<DType>(live.dtype) != DType::kBool || live.rank != lane_rank) {
      return InvalidArgument("callout: the lanes of locate_nans must be bool, one a lane, got " + ShapeString(live));
    }
  }
  if (Lanes(text_, record).count() < 0) return InvalidArgument("callout: locate_nans has more lanes than 2^63 - 1");
  return OkStatus();
}

[[gnu::noinline, gnu::cold]] Result<Inspector::Send> LocatedNans::Examine(const Record& record) {
  CALLOUT_RETURN_IF_ERROR(Validate(record));
  const std::optional<Finding> finding = FindIn(record);
  if (!finding) return Send::kNothing;
  const RunFinding found = {.run_id = record.run_id,
                            .device_ordinal = record.device_ordinal,
                            .order = text_.order,
                            .is_nan = finding->is_nan,
                            .backward = text_.backward,
                            .is_shard = !record.offsets.empty()};
  if (!AddRunFinding(found, finding->from_infinite)) return Send::kNothing;
  if (text_.fails) return InternalError("locate_nans: " + Describe(record, *finding));
  if (!IsToBeReported(record)) return Send::kNothing;
  const std::string text = "locate_nans: " + Describe(record, *finding);
  const LocatedNansReporter reporter =
      g_reporter.load(std::memory_order_acquire);  // pairs with SetLocatedNansReporter's store
  switch (reporter == nullptr ? Reported::kByNobody : reporter(text_.place, text)) {
    case Reported::kRefused:
      return InternalError(text);
    case Reported::kByNobody:
      Log(LogLevel::kWarning, text);
      break;
    case Reported::kTaken:
      break;
  }
  return Send::kNothing;
}

std::optional<Finding> LocatedNans::FindIn(const Record& record) const {
  const Lanes lanes(text_, record);
  for (int64_t i = 0, end = lanes.examined(); i < end; ++i) {
    std::vector<int64_t> lane = lanes.At(i);
    if (text_.num_live > 0) {
      const std::optional<Part> live = lanes.PartOf(0, lane);
      if (!live || *static_cast<const char*>(live->buffer.data) == 0) continue;
    }
    if (std::optional<Finding> finding = FindInLane(lanes, std::move(lane))) return finding;
  }
  return std::nullopt;
}

std::optional<Finding> LocatedNans::FindInLane(const Lanes& lanes, std::vector<int64_t> lane) const {
  std::optional<NonFinite> inputs;  // of all
  for (size_t i = 0; i < text_.operations.size(); ++i) {
    const std::optional<Part> part = lanes.PartOf(first_result() + i, lane);
    const NonFinite found = part ? CountNonFinite(part->buffer, checks()) : NonFinite{};
    if (found.first < 0) continue;
    if (!inputs) {
      inputs.emplace();
      for (size_t k = first_input(); k < first_step() && inputs->nan == 0; ++k) {
        const std::optional<Part> operand = lanes.PartOf(k, lane);
        const NonFinite input = operand ? CountNonFinite(operand->buffer, {}) : NonFinite{};
        inputs->nan += input.nan;
        inputs->infinite += input.infinite;
      }
    }
    if (inputs->nan > 0) return std::nullopt;
    if (found.nan > 0) {
      return Finding{.lane = std::move(lane),
                     .result = i,
                     .is_nan = true,
                     .from_infinite = inputs->infinite > 0,
                     .first = CountNonFinite(part->buffer, {.infinite = false}).first};
    }
    if (inputs->infinite == 0) return Finding{.lane = std::move(lane), .result = i, .first = found.first};
  }
  return std::nullopt;
}

bool LocatedNans::IsToBeReported(const Record& record) {
  MutexLock lock(mutex_);
  if (last_run_ == record.run_id && record.run_id != 0) return false;
  last_run_ = record.run_id;
  ++runs_;
  return runs_ <= kRunsReported || std::has_single_bit(runs_);
}

std::string Joined(const std::vector<int64_t>& numbers) {
  std::string text = numbers.size() == 1 ? "" : "(";
  for (size_t i = 0; i < numbers.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
  return numbers.size() == 1 ? text : text + ")";
}

// The elements of a buffer from `begin` on, in its order.
std::string Elements(const callout_buffer& buffer, int64_t begin, int64_t count, bool is_scalar) {
  callout_buffer shown = buffer;
  const uint64_t width = static_cast<uint64_t>(BitWidth(static_cast<DType>(buffer.dtype))) / 8;
  shown.data = static_cast<char*>(buffer.data) + static_cast<uint64_t>(begin) * width;
  shown.rank = is_scalar ? 0 : 1;
  shown.dims = &count;
  shown.size_bytes = static_cast<uint64_t>(count) * width;
  std::string text;
  if (!AppendPlainArray(shown, text).ok()) return "?";
  return text;
}

std::string LocatedNans::Describe(const Record& record, const Finding& finding) const {
  const Lanes lanes(text_, record);
  const size_t operand = first_result() + finding.result;
  const Part part = lanes.PartOf(operand, finding.lane).value_or(Part{});  // it was found there
  std::string text = (finding.is_nan ? "NaN at " : "infinity at ") + text_.place + ": `" + text_.expression + "`; " +
                     text_.operations[finding.result] + (text_.backward ? ", backward" : ", forward");
  if (finding.from_infinite) text += ", out of infinite inputs";
  if (!text_.module.empty()) text += ", in " + text_.module;
  text += "; " + ShapeString(part.buffer) + " at ";
  std::vector<int64_t> index = Unravel(finding.first, part.buffer);
  size_t offset = part.lane_rank;
  for (size_t i = 0; i < operand; ++i) offset += record.buffers[i].rank;
  std::vector<int64_t> shard;
  for (size_t axis = 0; axis < index.size() && offset + axis < record.offsets.size(); ++axis) {
    shard.push_back(record.offsets[offset + axis]);
    index[axis] = StepAfter(shard.back(), index[axis]);
  }
  text += IndexString(index);
  if (!finding.lane.empty()) text += ", lane " + Joined(lanes.NumbersOf(finding.lane));
  std::vector<int64_t> steps;
  for (size_t i = first_step(); i < record.buffers.size(); ++i) {
    const std::optional<Part> step = lanes.PartOf(i, finding.lane);
    steps.push_back(step ? FirstInteger(step->buffer).value_or(-1) : -1);
  }
  if (!steps.empty()) text += ", step " + Joined(steps);
  text += ", device " + std::to_string(record.device_ordinal);
  if (!shard.empty()) text += ", the shard from " + IndexString(shard);
  DescribeInputs(lanes, finding, part.buffer, text);
  return text;
}

void LocatedNans::DescribeInputs(const Lanes& lanes, const Finding& finding, const callout_buffer& result,
                                 std::string& out) const {
  if (text_.num_inputs > 0) out += "; inputs:";
  for (size_t i = 0; i < std::min(text_.num_inputs, kInputsShown); ++i) {
    const std::optional<Part> part = lanes.PartOf(first_input() + i, finding.lane);
    out += i > 0 ? ", " : " ";
    if (!part) {
      out += "one that is on another device";
      continue;
    }
    const callout_buffer& input = part->buffer;
    const int64_t count = ElementCount(input);
    out += ShapeString(input) + " ";
    const bool is_like_result =
        input.rank == result.rank && std::equal(input.dims, input.dims + input.rank, result.dims);
    if (is_like_result) {
      out += Elements(input, finding.first, 1, true);
    } else {
      const int64_t shown = std::min(count, kElementsShown);
      std::string elements = Elements(input, 0, shown, input.rank == 0);
      if (shown < count) elements.insert(elements.size() - 1, " ...");
      out += elements;
    }
  }
  if (text_.num_inputs > kInputsShown) {
    out += " and " + std::to_string(text_.num_inputs - kInputsShown) + " more";
  }
}

}  // namespace

void SetLocatedNansReporter(LocatedNansReporter reporter) { g_reporter.store(reporter, std::memory_order_release); }

std::shared_ptr<Callback> MakeLocatedNans(std::string label, LocatedNansText text) {
  return std::make_shared<LocatedNans>(std::move(label), std::move(text));
}

Result<std::shared_ptr<Callback>> MakeLocatedNansOf(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(LocatedNansText text, ParseLocatedNans(payload));
  return MakeLocatedNans(label, std::move(text));
}

}  // namespace callout::internal
