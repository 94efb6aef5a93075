// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check.h"

#include <atomic>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/base/fork_mutex.h"
#include "core/frame/buffer.h"
#include "sinks/record_format.h"
#include "sinks/step_counter.h"

namespace callout::internal {
namespace {

constexpr std::string_view kACheck = "a check";
constexpr size_t kMostOperands = 1 << 10;

// Fills the masks from the operands' texts, such as "3" or "3e".
bool ReadOperands(const CheckPayload& payload, CheckText& text) {
  if (payload.operands.size() > kMostOperands) return false;
  std::vector<int64_t> masks;
  for (std::string_view one : payload.operands) {
    text.is_elementwise.push_back(one.ends_with('e'));
    if (text.is_elementwise.back()) one.remove_suffix(1);
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), masks.emplace_back());
    if (error != std::errc() || end != one.data() + one.size()) return false;
  }
  std::optional<std::vector<uint32_t>> lanes = LaneMasks(masks, payload.extents);
  if (!lanes) return false;
  text.lane_masks = *std::move(lanes);
  return true;
}

}  // namespace

Result<CheckText> ParseCheck(std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(CheckPayload decoded, DecodePayload<CheckPayload>(kACheck, payload));
  CheckText text;
  text.fails = decoded.action == CheckAction::kRaise;
  text.source = std::move(decoded.source);
  text.num_extents = static_cast<int>(decoded.extents);
  text.format = std::move(decoded.text.text);
  if (!ReadOperands(decoded, text)) {
    return payload::Wrong({kACheck, kDescriptions<CheckPayload>},
                          Cat("with the operands' masks of ", decoded.extents, " extents"),
                          Join(decoded.operands, ","));
  }
  CALLOUT_RETURN_IF_ERROR(RecordFormat::Parse(text.format).status());
  return text;
}

namespace {

// Returns the part of a value that the text shows, without the dimensions that `place` selects. Returns nothing if
// another device has that part.
std::optional<callout_buffer> PartAt(const CheckText& text, const Record& record, size_t operand,
                                     const CheckPlace& place) {
  std::vector<int64_t> indices;
  for (size_t extent = 0; extent < place.lane.size(); ++extent) {
    if (!HasExtent(text.lane_masks[operand], extent)) continue;
    if (!place.lane[extent]) return record.buffers[operand];  // Shows the values of all lanes.
    indices.push_back(*place.lane[extent]);
  }
  if (text.is_elementwise[operand]) indices.insert(indices.end(), place.index.begin(), place.index.end());
  return PartBehind(record, operand, indices);
}

callout_buffer Numbers(std::vector<int64_t>& numbers, int64_t& count, bool is_scalar) {
  count = static_cast<int64_t>(numbers.size());
  return {.dtype = static_cast<uint32_t>(DType::kInt64),
          .rank = is_scalar ? 0U : 1U,
          .data = numbers.data(),
          .dims = &count,
          .size_bytes = numbers.size() * sizeof(int64_t)};
}

}  // namespace

std::string CheckPlace::Describe() const {
  std::string text;
  if (!lane.empty()) {
    text = lane.size() == 1 ? "lane " : "lane (";
    for (size_t i = 0; i < lane.size(); ++i) {
      if (i > 0) text += ",";
      text += lane[i] ? std::to_string(*lane[i]) : "all";
    }
    text += lane.size() == 1 ? ", " : "), ";
  }
  if (!index.empty()) text += "index " + IndexString(index) + ", ";
  if (step) text += Cat("step ", *step, ", ");
  return Cat(text, "device ", device_ordinal);
}

CheckPlace CheckedAt(const CheckText& text, const Record& record, int64_t first) {
  const std::vector<int64_t> where = WholeIndex(record, 0, first);
  CheckPlace place = {.step = record.step, .device_ordinal = record.device_ordinal};
  place.lane.resize(static_cast<size_t>(text.num_extents));
  size_t axis = 0;
  for (size_t extent = 0; extent < place.lane.size(); ++extent) {
    if (HasExtent(text.lane_masks.front(), extent)) place.lane[extent] = where[axis++];
  }
  place.index.assign(where.begin() + static_cast<ptrdiff_t>(axis), where.end());
  return place;
}

std::string TextAt(const CheckText& text, const Record& record, const CheckPlace& place) {
  Record shown = record;
  SiteInfo site = *record.site;
  site.id = 0;
  std::vector<callout_buffer> parts;
  for (size_t i = 1; i < record.buffers.size(); ++i) {
    const std::optional<callout_buffer> part = PartAt(text, record, i, place);
    if (!part) return text.format;
    parts.push_back(*part);
  }
  std::vector<int64_t> lane;
  for (const std::optional<int64_t>& number : place.lane) lane.push_back(number.value_or(-1));
  if (lane.empty()) lane.push_back(0);
  std::vector<int64_t> index = place.index;
  int64_t lane_count = 0;
  int64_t index_count = 0;
  parts.push_back(Numbers(lane, lane_count, lane.size() == 1));
  parts.push_back(Numbers(index, index_count, false));
  site.leaf_names.erase(site.leaf_names.begin());
  site.leaf_names.emplace_back("lane");
  site.leaf_names.emplace_back("index");
  shown.site = &site;
  shown.buffers = parts;
  shown.offsets = {};
  Result<RecordFormat> format = RecordFormat::Parse(text.format);
  std::string out;
  if (!format.ok() || !format->Append(shown, kNoColours, out).ok()) return text.format;
  return out;
}

namespace {

// Returns the row-major index of the first nonzero byte.
std::optional<uint64_t> FirstTrue(const callout_buffer& predicate) {
  const auto* bytes = static_cast<const char*>(predicate.data);
  const uint64_t n = predicate.size_bytes;
  uint64_t i = 0;
  for (uint64_t word = 0; i + sizeof(word) <= n; i += sizeof(word)) {
    std::memcpy(&word, bytes + i, sizeof(word));
    if (word != 0) break;
  }
  for (; i < n; ++i) {
    if (bytes[i] != 0) return i;
  }
  return std::nullopt;
}

class Check final : public Inspection {
 public:
  Check(std::string label, CheckText text)
      : Inspection(std::move(label), kACheck, text.lane_masks), text_(std::move(text)) {}

  Result<Send> Inspect(const Record& record) override;
  bool Passes(std::span<const callout_buffer> buffers) override {
    return !counts_steps_ && Validate(buffers).ok() && !FirstTrue(buffers.front());
  }

 private:
  Status Validate(std::span<const callout_buffer> buffers) const;
  int64_t NextStep(const Record& record);
  Result<Send> Fire(const Record& record, int64_t first);
  std::string Describe(const Record& record, int64_t first, uint64_t times) const;

  const CheckText text_;
  const bool counts_steps_ = text_.format.find("{step") != std::string::npos;
  std::atomic<uint64_t> times_{0};  // Counts how often the predicate was true.
  Mutex mutex_;
  StepCounter steps_ CALLOUT_GUARDED_BY(mutex_);
};

Status Check::Validate(std::span<const callout_buffer> buffers) const {
  CALLOUT_RETURN_IF_ERROR(CheckOperands(buffers));
  if (static_cast<DType>(buffers.front().dtype) == DType::kBool) return OkStatus();
  return InvalidArgument("callout: the predicate of a check must be bool, got " + ShapeString(buffers.front()));
}

std::string Check::Describe(const Record& record, int64_t first, uint64_t times) const {
  const CheckPlace place = CheckedAt(text_, record, first);
  std::string text = "check failed: " + TextAt(text_, record, place) + " (" + place.Describe();
  if (times > 1) text += Cat(", ", times, " times so far");
  if (!text_.source.empty()) text += "; " + text_.source;
  return text + ")";
}

int64_t Check::NextStep(const Record& record) {
  MutexLock lock(mutex_);
  return steps_.Next(record);
}

Result<Inspector::Send> Check::Inspect(const Record& record) {
  CALLOUT_RETURN_IF_ERROR(Validate(record.buffers));
  const std::optional<uint64_t> first = FirstTrue(record.buffers.front());
  if (counts_steps_ && !record.step) [[unlikely]] {
    Record counted = record;
    counted.step = NextStep(record);
    return first ? Fire(counted, static_cast<int64_t>(*first)) : Send::kNothing;
  }
  if (!first) [[likely]]
    return Send::kNothing;
  return Fire(record, static_cast<int64_t>(*first));
}

[[gnu::noinline, gnu::cold]] Result<Inspector::Send> Check::Fire(const Record& record, int64_t first) {
  if (text_.fails) return Status(StatusCode::kInternal, Describe(record, first, 1), StatusKind::kCheck);
  const uint64_t times = times_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!std::has_single_bit(times)) return Send::kNothing;
  return Notice(Describe(record, first, times));
}

}  // namespace

Result<std::shared_ptr<Callback>> MakeCheck(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(CheckText text, ParseCheck(payload));
  return std::shared_ptr<Callback>(std::make_shared<Check>(label, std::move(text)));
}

}  // namespace callout::internal
