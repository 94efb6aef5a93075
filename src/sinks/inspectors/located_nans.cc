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
#include "core/base/cat.h"
#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/frame/buffer.h"
#include "sinks/inspectors/non_finite.h"
#include "sinks/inspectors/run_findings.h"
#include "sinks/text/formatted_array.h"

namespace callout::internal {
namespace {

constexpr size_t kInputsShown = 6;
constexpr int64_t kElementsShown = 4;
constexpr uint64_t kRunsReported = 10;       // Each of the first 10 runs; later ones more and more rarely.
constexpr int64_t kLanesExamined = 1 << 20;  // The least number of lanes that are examined if no operand has them all.

std::atomic<LocatedNansReporter> g_reporter{nullptr};

constexpr std::string_view kLocateNans = "locate_nans";

// Describes a bad result and the inputs of its lane.
struct Finding {
  std::vector<int64_t> lane;
  size_t result = 0;
  bool is_nan = false;
  bool from_infinite = false;
  int64_t first = 0;  // The row-major index in the lane's part of the result.
};

// The lanes of the results on this device, and the parts of the operands that belong to each. In a program over several
// devices, operands may be sharded otherwise than results; parts on other devices cannot be examined.
class Lanes {
 public:
  Lanes(const LocatedNansPayload& payload, const std::vector<uint32_t>& masks, const Record& record)
      : masks_(masks), record_(record) {
    axes_.assign(static_cast<size_t>(payload.extents), Axis{});
    size_t first = 0;
    for (size_t i = 0; i < masks.size(); first += record.buffers[i++].rank) {
      const bool is_result = i >= payload.num_live() && i < payload.num_live() + payload.operations.size();
      size_t axis = 0;
      for (size_t extent = 0; extent < axes_.size(); ++extent) {
        if (!HasExtent(masks[i], extent)) continue;
        const size_t at = axis++;
        if (axes_[extent].is_known && (axes_[extent].is_of_result || !is_result)) continue;
        axes_[extent] = {record.buffers[i].dims[at], Begin(record, first + at), true, is_result};
      }
    }
    for (const Axis& axis : axes_) {
      if (count_ >= 0 && __builtin_mul_overflow(count_, axis.extent, &count_)) count_ = -1;
    }
  }

  // Negative if the number of lanes overflows.
  int64_t count() const { return count_; }

  // Limits the lanes that are examined: operands with different extents, or without elements, can describe more lanes
  // than anybody can wait for.
  int64_t examined() const {
    int64_t held = 0;
    for (const callout_buffer& buffer : record_.buffers) held += ElementCount(buffer);
    return std::min(count_, std::max(kLanesExamined, held));
  }

  // Returns the lane's indices in the whole value.
  std::vector<int64_t> At(int64_t flat) const {
    std::vector<int64_t> lane(axes_.size());
    for (size_t i = lane.size(); i-- > 0; flat /= axes_[i].extent)
      lane[i] = StepAfter(axes_[i].begin, flat % axes_[i].extent);
    return lane;
  }

  // Returns the number of leading dimensions of an operand that select a lane.
  size_t RankOf(size_t operand) const { return static_cast<size_t>(std::popcount(masks_[operand])); }

  // Returns nothing if the part is on another device.
  std::optional<callout_buffer> PartOf(size_t operand, const std::vector<int64_t>& lane) const {
    std::vector<int64_t> indices;
    for (size_t extent = 0; extent < lane.size(); ++extent) {
      if (HasExtent(masks_[operand], extent)) indices.push_back(lane[extent]);
    }
    return PartBehind(record_, operand, indices);
  }

 private:
  struct Axis {
    int64_t extent = 1;
    int64_t begin = 0;  // In the whole value.
    bool is_known = false;
    bool is_of_result = false;
  };

  const std::vector<uint32_t>& masks_;
  const Record& record_;
  std::vector<Axis> axes_;
  int64_t count_ = 1;
};

class LocatedNans final : public Inspection {
 public:
  LocatedNans(std::string label, LocatedNansPayload payload, std::vector<uint32_t> masks)
      : Inspection(std::move(label), kLocateNans, std::move(masks)), payload_(std::move(payload)) {}

  // Reports inside of the program, and so never needs the Python worker.
  Worker worker() const override { return Worker::kNative; }
  Result<Send> Inspect(const Record& record) override;
  bool Passes(std::span<const callout_buffer> buffers) override {
    return buffers.size() == lane_masks().size() && AreGood(buffers);
  }

 private:
  size_t first_result() const { return payload_.num_live(); }
  size_t first_input() const { return first_result() + payload_.operations.size(); }
  size_t first_step() const { return first_input() + payload_.num_inputs(); }
  NonFiniteChecks checks() const { return {.nan = true, .infinite = payload_.kinds == LocatedKinds::kBoth}; }
  Lanes LanesOf(const Record& record) const { return {payload_, lane_masks(), record}; }

  bool AreGood(std::span<const callout_buffer> buffers) const;
  Status Validate(const Record& record) const;
  Result<Send> Examine(const Record& record);
  std::optional<Finding> FindIn(const Record& record) const;
  std::optional<Finding> FindInLane(const Lanes& lanes, std::vector<int64_t> lane) const;
  bool IsToBeReported(const Record& record);
  std::string Describe(const Record& record, const Finding& finding) const;
  void DescribeInputs(const Lanes& lanes, const Finding& finding, const callout_buffer& result, std::string& out) const;

  const LocatedNansPayload payload_;
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

// Returns true if no result is bad. Requires as many buffers as the payload describes.
bool LocatedNans::AreGood(std::span<const callout_buffer> buffers) const {
  for (size_t i = 0; i < payload_.operations.size(); ++i) {
    if (CountNonFinite(buffers[first_result() + i], checks()).first >= 0) [[unlikely]]
      return false;
  }
  return true;
}

Status LocatedNans::Validate(const Record& record) const {
  CALLOUT_RETURN_IF_ERROR(CheckOperands(record.buffers));
  std::vector<std::optional<int64_t>> extents(static_cast<size_t>(payload_.extents));
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    size_t axis = 0;
    for (size_t extent = 0; extent < extents.size(); ++extent) {
      if (!HasExtent(lane_masks()[i], extent)) continue;
      const int64_t here = record.buffers[i].dims[axis++];
      if (record.offsets.empty() && extents[extent].value_or(here) != here) {
        return InvalidArgument(Cat("callout: operand ", i, " of locate_nans, ", ShapeString(record.buffers[i]),
                                   ", has other lanes than those before it"));
      }
      extents[extent] = here;
    }
  }
  for (size_t i = first_step(); i < record.buffers.size(); ++i) {
    if (HasIntegers(record.buffers[i])) continue;
    return InvalidArgument("callout: a step of locate_nans must be an integer, got " + ShapeString(record.buffers[i]));
  }
  if (payload_.num_live() > 0) {
    const callout_buffer& live = record.buffers.front();
    const auto lane_rank = static_cast<uint32_t>(std::popcount(lane_masks().front()));
    if (static_cast<DType>(live.dtype) != DType::kBool || live.rank != lane_rank) {
      return InvalidArgument("callout: the lanes of locate_nans must be bool, one a lane, got " + ShapeString(live));
    }
  }
  if (LanesOf(record).count() < 0) return InvalidArgument("callout: locate_nans has more lanes than 2^63 - 1");
  return OkStatus();
}

[[gnu::noinline, gnu::cold]] Result<Inspector::Send> LocatedNans::Examine(const Record& record) {
  CALLOUT_RETURN_IF_ERROR(Validate(record));
  const std::optional<Finding> finding = FindIn(record);
  if (!finding) return Send::kNothing;
  const RunFinding found = {.run_id = record.run_id,
                            .device_ordinal = record.device_ordinal,
                            .order = static_cast<uint64_t>(payload_.order),
                            .is_nan = finding->is_nan,
                            .backward = payload_.direction == Direction::kBackward,
                            .is_shard = !record.offsets.empty()};
  if (!AddRunFinding(found, finding->from_infinite)) return Send::kNothing;
  if (payload_.action == OnFinding::kRaise) {
    return Status(StatusCode::kInternal, "locate_nans: " + Describe(record, *finding), StatusKind::kNonFinite);
  }
  if (!IsToBeReported(record)) return Send::kNothing;
  const std::string text = "locate_nans: " + Describe(record, *finding);
  const LocatedNansReporter reporter =
      g_reporter.load(std::memory_order_acquire);  // Pairs with SetLocatedNansReporter's store.
  switch (reporter == nullptr ? Reported::kByNobody : reporter(payload_.place, text)) {
    case Reported::kRefused:
      return Status(StatusCode::kInternal, text, StatusKind::kNonFinite);
    case Reported::kByNobody:
      Log(LogLevel::kWarning, text);
      break;
    case Reported::kTaken:
      break;
  }
  return Send::kNothing;
}

std::optional<Finding> LocatedNans::FindIn(const Record& record) const {
  const Lanes lanes = LanesOf(record);
  for (int64_t i = 0, end = lanes.examined(); i < end; ++i) {
    std::vector<int64_t> lane = lanes.At(i);
    if (payload_.num_live() > 0) {
      const std::optional<callout_buffer> live = lanes.PartOf(0, lane);
      if (!live || *static_cast<const char*>(live->data) == 0) continue;
    }
    if (std::optional<Finding> finding = FindInLane(lanes, std::move(lane))) return finding;
  }
  return std::nullopt;
}

std::optional<Finding> LocatedNans::FindInLane(const Lanes& lanes, std::vector<int64_t> lane) const {
  std::optional<NonFinite> inputs;  // The counts over all inputs.
  for (size_t i = 0; i < payload_.operations.size(); ++i) {
    const std::optional<callout_buffer> part = lanes.PartOf(first_result() + i, lane);
    const NonFinite found = part ? CountNonFinite(*part, checks()) : NonFinite{};
    if (found.first < 0) continue;
    if (!inputs) {
      inputs.emplace();
      for (size_t k = first_input(); k < first_step() && inputs->nan == 0; ++k) {
        const std::optional<callout_buffer> operand = lanes.PartOf(k, lane);
        const NonFinite input = operand ? CountNonFinite(*operand, {}) : NonFinite{};
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
                     .first = CountNonFinite(*part, {.infinite = false}).first};
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
  const std::string text = Join(numbers, ",");
  return numbers.size() == 1 ? text : Cat("(", text, ")");
}

// Returns the text of elements of a buffer, from `begin` on in row-major order.
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
  const Lanes lanes = LanesOf(record);
  const size_t operand = first_result() + finding.result;
  // The part is on this device: the finding came from it.
  const callout_buffer part = lanes.PartOf(operand, finding.lane).value_or(callout_buffer{});
  std::string text = (finding.is_nan ? "NaN at " : "infinity at ") + payload_.place + ": `" + payload_.code + "`; " +
                     payload_.operations[finding.result] +
                     (payload_.direction == Direction::kBackward ? ", backward" : ", forward");
  if (finding.from_infinite) text += ", out of infinite inputs";
  if (!payload_.scopes.empty()) text += ", in " + payload_.scopes;
  text += "; " + ShapeString(part) + " at ";
  std::vector<int64_t> index = Unravel(finding.first, part);
  const size_t first = FirstAxis(record, operand) + lanes.RankOf(operand);
  std::vector<int64_t> shard;
  for (size_t axis = 0; axis < index.size() && first + axis < record.offsets.size(); ++axis) {
    shard.push_back(record.offsets[first + axis]);
    index[axis] = StepAfter(shard.back(), index[axis]);
  }
  text += IndexString(index);
  if (!finding.lane.empty()) text += ", lane " + Joined(finding.lane);
  std::vector<int64_t> steps;
  for (size_t i = first_step(); i < record.buffers.size(); ++i) {
    const std::optional<callout_buffer> step = lanes.PartOf(i, finding.lane);
    steps.push_back(step ? FirstInteger(*step).value_or(-1) : -1);
  }
  if (!steps.empty()) text += ", step " + Joined(steps);
  text += Cat(", device ", record.device_ordinal);
  if (!shard.empty()) text += ", the shard from " + IndexString(shard);
  DescribeInputs(lanes, finding, part, text);
  return text;
}

void LocatedNans::DescribeInputs(const Lanes& lanes, const Finding& finding, const callout_buffer& result,
                                 std::string& out) const {
  if (payload_.num_inputs() > 0) out += "; inputs:";
  for (size_t i = 0; i < std::min(payload_.num_inputs(), kInputsShown); ++i) {
    const std::optional<callout_buffer> part = lanes.PartOf(first_input() + i, finding.lane);
    out += i > 0 ? ", " : " ";
    if (!part) {
      out += "one that is on another device";
      continue;
    }
    const callout_buffer& input = *part;
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
  if (payload_.num_inputs() > kInputsShown) {
    out += Cat(" and ", payload_.num_inputs() - kInputsShown, " more");
  }
}

}  // namespace

void SetLocatedNansReporter(LocatedNansReporter reporter) { g_reporter.store(reporter, std::memory_order_release); }

Result<LocatedNansPayload> ParseLocatedNans(std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(LocatedNansPayload decoded, DecodePayload<LocatedNansPayload>(kLocateNans, payload));
  const std::optional<std::vector<uint32_t>> masks = LaneMasks(decoded.masks, decoded.extents);
  const size_t operands = decoded.num_live() + decoded.operations.size() + decoded.num_inputs() + decoded.num_steps();
  if (masks && masks->size() == operands && operands <= kMostLocated) return decoded;
  return payload::Wrong({kLocateNans, kDescriptions<LocatedNansPayload>},
                        Cat("with a mask of ", decoded.extents, " extents for each of ", operands, " operands"),
                        Join(decoded.masks, ","));
}

Result<std::shared_ptr<Callback>> MakeLocatedNans(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(LocatedNansPayload decoded, ParseLocatedNans(payload));
  std::vector<uint32_t> masks = LaneMasks(decoded.masks, decoded.extents).value_or(std::vector<uint32_t>{});
  return std::shared_ptr<Callback>(std::make_shared<LocatedNans>(label, std::move(decoded), std::move(masks)));
}

}  // namespace callout::internal
