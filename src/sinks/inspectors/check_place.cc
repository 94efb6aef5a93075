// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check_place.h"

#include <bit>
#include <span>
#include <utility>

#include "callout/dtype.h"
#include "core/frame/buffer.h"
#include "sinks/record_format.h"

namespace callout::internal {
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

}  // namespace callout::internal
