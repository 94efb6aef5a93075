// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check.h"

#include <array>
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
#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/encoding/percent.h"
#include "core/frame/buffer.h"
#include "sinks/record_format.h"
#include "sinks/step_counter.h"

namespace callout::internal {
namespace {

constexpr size_t kFieldsBeforeText = 5;
constexpr size_t kMaxText = 1 << 16;
constexpr size_t kMaxOperands = 1 << 10;
constexpr int kMaxExtents = 16;

Status Malformed(std::string_view what, std::string_view found) {
  constexpr size_t kShown = 80;
  return InvalidArgument("callout: a check must be '1;raise;source;extents;operands;text', " + std::string(what) +
                         ", got '" + std::string(found.substr(0, kShown)) + "'");
}

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::vector<CheckOperand>> Operands(std::string_view text, int num_extents) {
  std::vector<CheckOperand> operands;
  while (operands.size() < kMaxOperands) {
    std::string_view one = text.substr(0, text.find(','));
    const size_t length = one.size();
    CheckOperand operand;
    operand.is_elementwise = one.ends_with('e');
    if (operand.is_elementwise) one.remove_suffix(1);
    const std::optional<uint32_t> mask = Number(one);
    if (!mask || *mask >= (1U << static_cast<unsigned>(num_extents))) return std::nullopt;
    operand.lane_mask = *mask;
    operands.push_back(operand);
    if (length == text.size()) return operands;
    text.remove_prefix(length + 1);
  }
  return std::nullopt;
}

}  // namespace

Result<CheckText> ParseCheck(std::string_view payload) {
  std::array<std::string_view, kFieldsBeforeText> fields;
  std::string_view rest = payload;
  for (std::string_view& field : fields) {
    const size_t end = rest.find(';');
    if (end == std::string_view::npos) return Malformed("with 6 fields", payload);
    field = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
  if (fields[0] != "1") return Malformed("of the format 1", fields[0]);
  if (fields[1] != "raise" && fields[1] != "warn") return Malformed("with 'raise' or 'warn'", fields[1]);
  if (rest.size() > kMaxText) return Malformed("with a text of at most 64 KiB", rest);
  std::optional<std::string> source = PercentDecoded(fields[2]);
  if (!source || source->size() > kMaxText)
    return Malformed("with a source whose '%' stand before two digits", fields[2]);
  const std::optional<uint32_t> extents = Number(fields[3]);
  if (!extents || *extents > kMaxExtents) return Malformed("with at most 16 extents", fields[3]);
  const auto num_extents = static_cast<int>(*extents);
  std::optional<std::vector<CheckOperand>> operands = Operands(fields[4], num_extents);
  if (!operands) return Malformed("with the operands' masks of " + std::to_string(num_extents) + " extents", fields[4]);
  CALLOUT_RETURN_IF_ERROR(RecordFormat::Parse(std::string(rest)).status());
  return CheckText{.fails = fields[1] == "raise",
                   .source = std::move(*source),
                   .num_extents = num_extents,
                   .operands = std::move(*operands),
                   .format = std::string(rest)};
}

namespace {

// Where a buffer begins in the whole value, along `axis`.
int64_t Begin(const Record& record, size_t first_offset, size_t axis) {
  const size_t at = first_offset + axis;
  return at < record.offsets.size() ? record.offsets[at] : 0;
}

size_t RankBefore(const Record& record, size_t operand) {
  size_t rank = 0;
  for (size_t i = 0; i < operand; ++i) rank += record.buffers[i].rank;
  return rank;
}

bool HasExtent(const CheckOperand& operand, size_t extent) { return (operand.lane_mask >> extent & 1U) != 0; }

// The part of a value that the text shows: what is behind the dimensions that `CheckPlace` tells. Empty if this device
// does not have it.
std::optional<callout_buffer> PartAt(const CheckText& text, const Record& record, size_t operand,
                                     const CheckPlace& place) {
  callout_buffer part = record.buffers[operand];
  const CheckOperand& told = text.operands[operand];
  std::vector<int64_t> prefix;
  for (size_t extent = 0; extent < place.lane.size(); ++extent) {
    if (!HasExtent(told, extent)) continue;
    if (!place.lane[extent]) return part;  // the values of all lanes
    prefix.push_back(*place.lane[extent]);
  }
  if (told.is_elementwise) prefix.insert(prefix.end(), place.index.begin(), place.index.end());
  if (prefix.size() > part.rank) return std::nullopt;
  const size_t offset = RankBefore(record, operand);
  uint64_t flat = 0;
  for (size_t axis = 0; axis < prefix.size(); ++axis) {
    const auto extent = static_cast<uint64_t>(part.dims[axis]);
    // Offsets may be anything.
    const uint64_t local = static_cast<uint64_t>(prefix[axis]) - static_cast<uint64_t>(Begin(record, offset, axis));
    if (local >= extent) return std::nullopt;
    flat = flat * extent + local;
  }
  part.dims += prefix.size();
  part.rank -= static_cast<uint32_t>(prefix.size());
  const uint64_t bytes = PackedBytes(static_cast<DType>(part.dtype), ElementCount(part));
  part.data = static_cast<char*>(part.data) + flat * bytes;
  part.size_bytes = bytes;
  return part;
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
  if (step) text += "step " + std::to_string(*step) + ", ";
  return text + "device " + std::to_string(device_ordinal);
}

CheckPlace PlaceOf(const CheckText& text, const Record& record, int64_t first) {
  std::vector<int64_t> where = Unravel(first, record.buffers.front());
  for (size_t axis = 0; axis < where.size(); ++axis) where[axis] = StepAfter(Begin(record, 0, axis), where[axis]);
  CheckPlace place = {.step = record.step, .device_ordinal = record.device_ordinal};
  place.lane.resize(static_cast<size_t>(text.num_extents));
  size_t axis = 0;
  for (size_t extent = 0; extent < place.lane.size(); ++extent) {
    if (HasExtent(text.operands.front(), extent)) place.lane[extent] = where[axis++];
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

// The row-major place of the first byte that is not zero.
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

class Check final : public Callback, public Inspector {
 public:
  Check(std::string label, CheckText text) : Callback(std::move(label)), text_(std::move(text)) {}

  // Its warnings are logged, and Python's loggers need the interpreter.
  Worker worker() const override { return Worker::kPython; }
  Inspector* inspector() override { return this; }
  Status Call(const callout_call& /*call*/) override {
    return FailedPrecondition("a check looks at taps; it cannot be called for a result");
  }
  Status CheckTap(size_t num_leaves) const override {
    if (num_leaves == text_.operands.size()) return OkStatus();
    return InvalidArgument("callout: a check of " + std::to_string(text_.operands.size()) + " arrays got " +
                           std::to_string(num_leaves));
  }
  Status Deliver(const Record& record) override;
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
  std::atomic<uint64_t> times_{0};  // that it was true
  Mutex mutex_;
  StepCounter steps_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ CALLOUT_GUARDED_BY(mutex_);
};

Status Check::Validate(std::span<const callout_buffer> buffers) const {
  if (buffers.size() != text_.operands.size()) [[unlikely]]
    return CheckTap(buffers.size());
  const callout_buffer& predicate = buffers.front();
  if (static_cast<DType>(predicate.dtype) != DType::kBool) {
    return InvalidArgument("callout: the predicate of a check must be bool, got " + ShapeString(predicate));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (BitWidth(static_cast<DType>(buffers[i].dtype)) % 8 != 0) {
      return InvalidArgument("callout: operand " + std::to_string(i) + " of a check, " + ShapeString(buffers[i]) +
                             ", packs elements into bytes");
    }
    const uint32_t lanes = text_.operands[i].lane_mask;
    if (lanes == 0 || buffers[i].rank >= static_cast<uint32_t>(std::popcount(lanes))) continue;
    return InvalidArgument("callout: operand " + std::to_string(i) + " of a check, " + ShapeString(buffers[i]) +
                           ", has fewer dimensions than its program says");
  }
  return OkStatus();
}

std::string Check::Describe(const Record& record, int64_t first, uint64_t times) const {
  const CheckPlace place = PlaceOf(text_, record, first);
  std::string text = "check failed: " + TextAt(text_, record, place) + " (" + place.Describe();
  if (times > 1) text += ", " + std::to_string(times) + " times so far";
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
  if (text_.fails) return InternalError(Describe(record, first, 1));
  const uint64_t times = times_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!std::has_single_bit(times)) return Send::kNothing;
  MutexLock lock(mutex_);
  warnings_.push_back(Describe(record, first, times));
  return Send::kNotice;
}

Status Check::Deliver(const Record& /*record*/) {
  std::vector<std::string> warnings;
  {
    MutexLock lock(mutex_);
    warnings.swap(warnings_);
  }
  for (const std::string& warning : warnings) Log(LogLevel::kWarning, warning);
  return OkStatus();
}

}  // namespace

std::shared_ptr<Callback> MakeCheck(std::string label, CheckText text) {
  return std::make_shared<Check>(std::move(label), std::move(text));
}

Result<std::shared_ptr<Callback>> MakeCheckOf(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(CheckText text, ParseCheck(payload));
  return MakeCheck(label, std::move(text));
}

}  // namespace callout::internal
