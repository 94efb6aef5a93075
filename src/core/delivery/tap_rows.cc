// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/tap_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/base/status.h"
#include "core/frame/buffer.h"

namespace callout::internal {
namespace {

uint64_t RowBytes(const callout_buffer& array) {
  const auto elements =
      std::accumulate(array.dims + 1, array.dims + array.rank, uint64_t{1},
                      [](uint64_t sum, int64_t extent) { return sum * static_cast<uint64_t>(extent); });
  return PackedBytes(static_cast<DType>(array.dtype), static_cast<int64_t>(elements));
}

Status CheckRows(const TapSite& site, const callout_buffer& array, uint32_t count) {
  if (array.rank == 0 || array.dims[0] < count) {
    return InvalidArgument(Cat("callout: tap '", site.info.label, "': expected arrays of at least ", count,
                               " rows, as many as the program filled (attribute `rows`), got ", ShapeString(array)));
  }
  if (RowBytes(array) * static_cast<uint64_t>(array.dims[0]) == array.size_bytes) [[likely]]
    return OkStatus();
  return InvalidArgument(Cat("callout: tap '", site.info.label, "': rows of ", ShapeString(array),
                             " are not whole bytes, so they cannot be sent together (attribute `rows`)"));
}

callout_buffer ListOf(DType dtype, const void* data, const std::vector<int64_t>& dims, uint64_t bytes) {
  return {.dtype = static_cast<uint32_t>(dtype),
          .rank = 1,
          .data = const_cast<void*>(data),
          .dims = dims.data(),
          .size_bytes = bytes};
}

}  // namespace

callout_buffer RowOf(const callout_buffer& array, uint32_t row) {
  const uint64_t bytes = RowBytes(array);
  callout_buffer one = array;
  one.rank = array.rank - 1;
  one.dims = array.dims + 1;
  one.size_bytes = bytes;
  one.data = bytes == 0 ? nullptr : static_cast<std::byte*>(array.data) + row * bytes;
  return one;
}

std::vector<int64_t> OffsetsOfRows(const TapRows& rows) {
  std::vector<int64_t> offsets;
  if (rows.offsets == nullptr) return offsets;
  const auto* begin = static_cast<const int64_t*>(rows.offsets->data);
  for (const callout_buffer& leaf : rows.leaves) {
    offsets.insert(offsets.end(), begin + 1, begin + leaf.rank);
    begin += leaf.rank;
  }
  return offsets;
}

std::optional<int64_t> TapRows::StepOf(uint32_t row) const {
  return steps == nullptr ? std::nullopt : FirstInteger(RowOf(*steps, row));
}

Result<TapRows> SplitRows(const TapSite& site, std::span<const callout_buffer> operands) {
  const size_t leaves = site.info.leaf_names.size();
  const size_t place = leaves + (site.info.has_step ? 1 : 0);
  const size_t expected = place + 1 + (site.has_turns ? 1 : 0) + (site.info.has_offsets ? 1 : 0);
  if (operands.size() != expected) {
    return InvalidArgument(Cat("callout: tap '", site.info.label, "': expected ", expected,
                               " operands (attributes `leaves`, `step`, `rows`, `turns`, `offsets`), got ",
                               operands.size()));
  }
  TapRows rows = {.leaves = operands.first(leaves),
                  .steps = site.info.has_step ? &operands[leaves] : nullptr,
                  .turns = site.has_turns ? &operands[place + 1] : nullptr,
                  .offsets = site.info.has_offsets ? &operands.back() : nullptr};
  const callout_buffer& count = operands[place];
  if (count.dtype != static_cast<uint32_t>(DType::kUint32) || count.rank != 0) {
    return InvalidArgument(Cat("callout: tap '", site.info.label,
                               "': expected the number of its rows, u32[] (attribute `rows`), got ",
                               ShapeString(count)));
  }
  std::memcpy(&rows.count, count.data, sizeof(rows.count));
  if (rows.steps != nullptr && !HasIntegers(*rows.steps)) {
    return InvalidArgument(
        Cat("callout: tap '", site.info.label,
            "': expected the steps of its rows, integers, behind its leaves (attribute `step`), got ",
            ShapeString(*rows.steps)));
  }
  for (const callout_buffer& array : operands.first(place)) CALLOUT_RETURN_IF_ERROR(CheckRows(site, array, rows.count));
  if (rows.turns != nullptr) {
    CALLOUT_RETURN_IF_ERROR(CheckRows(site, *rows.turns, rows.count));
    if (rows.turns->dtype != static_cast<uint32_t>(DType::kUint32) || rows.turns->rank != 1) {
      return InvalidArgument(Cat("callout: tap '", site.info.label,
                                 "': expected the turns of its rows, u32[rows] (attribute `turns`), got ",
                                 ShapeString(*rows.turns)));
    }
  }
  if (rows.offsets == nullptr) return rows;
  uint64_t rank = 0;
  for (const callout_buffer& leaf : rows.leaves) rank += leaf.rank;
  const bool is_list = rows.offsets->dtype == static_cast<uint32_t>(DType::kInt64) && rows.offsets->rank == 1;
  if (is_list && rows.offsets->dims[0] >= static_cast<int64_t>(rank)) return rows;
  return InvalidArgument(Cat("callout: tap '", site.info.label, "': expected its offsets, s64[", rank,
                             "] or more, as the last operand (attribute `offsets`), got ", ShapeString(*rows.offsets)));
}

AdmittedRows::AdmittedRows(TapSite& site, const TapRows& rows, int32_t device_ordinal, Throttle::Place place)
    : count_(rows.count) {
  std::vector<uint32_t> admitted;
  if (!site.throttle->AdmitsAll()) {
    for (uint32_t row = 0; row < rows.count; ++row) {
      if (!site.throttle->Admit(device_ordinal, rows.StepOf(row), place)) continue;
      admitted.push_back(row);
      skipped_.push_back(site.throttle->TakeSkipped(device_ordinal, place));
    }
    count_ = static_cast<uint32_t>(admitted.size());
    site.callback->stats().skips.fetch_add(rows.count - count_, std::memory_order_relaxed);
  }
  if (count_ == 0) return;
  const bool are_some = count_ < rows.count;
  for (const callout_buffer& leaf : rows.leaves) Add(leaf, are_some ? admitted : std::span<const uint32_t>());
  if (rows.steps != nullptr) Add(*rows.steps, are_some ? admitted : std::span<const uint32_t>());
  if (rows.offsets != nullptr) buffers_.push_back(*rows.offsets);
  const std::vector<int64_t>& dims = dims_.emplace_back(1, count_);
  if (!site.throttle->AdmitsAll()) {
    buffers_.push_back(ListOf(DType::kUint32, skipped_.data(), dims, skipped_.size() * sizeof(uint32_t)));
  }
  if (site.hand_over == 0) return;
  turns_.resize(count_);
  const auto* turns = rows.turns == nullptr ? nullptr : static_cast<const uint32_t*>(rows.turns->data);
  for (uint32_t i = 0; i < count_; ++i) {
    const uint32_t row = are_some ? admitted[i] : i;
    turns_[i] = turns == nullptr ? row : turns[row];
  }
  buffers_.push_back(ListOf(DType::kUint32, turns_.data(), dims, turns_.size() * sizeof(uint32_t)));
}

void AdmittedRows::Own() {
  for (callout_buffer& buffer : buffers_) {
    const bool is_own =
        buffer.data == skipped_.data() || buffer.data == turns_.data() ||
        std::any_of(copies_.begin(), copies_.end(), [&](const auto& copy) { return copy.data() == buffer.data; });
    if (is_own || buffer.size_bytes == 0) continue;
    const auto* begin = static_cast<const std::byte*>(buffer.data);
    buffer.data = copies_.emplace_back(begin, begin + buffer.size_bytes).data();
    buffer.dims = dims_.emplace_back(buffer.dims, buffer.dims + buffer.rank).data();
  }
}

std::vector<RowsPart> PartsOf(std::span<const RowsOfTap> taps, std::vector<callout_buffer>& buffers) {
  std::vector<RowsPart> parts;
  for (const RowsOfTap& tap : taps) {
    if (tap.rows.count() == 0) continue;
    const std::span<const callout_buffer> own = tap.rows.buffers();
    parts.push_back({.site = tap.site,
                     .first_buffer = static_cast<uint32_t>(buffers.size()),
                     .num_buffers = static_cast<uint32_t>(own.size()),
                     .rows = tap.rows.count(),
                     .skipped = 0});
    buffers.insert(buffers.end(), own.begin(), own.end());
  }
  return parts;
}

uint32_t AdmittedRows::skipped() const { return std::accumulate(skipped_.begin(), skipped_.end(), uint32_t{0}); }

// Adds an array with its first rows, or with copies of the given ones.
void AdmittedRows::Add(const callout_buffer& array, std::span<const uint32_t> rows) {
  const uint64_t bytes = RowBytes(array);
  std::vector<int64_t>& dims = dims_.emplace_back(array.dims, array.dims + array.rank);
  dims[0] = count_;
  callout_buffer added = array;
  added.dims = dims.data();
  added.size_bytes = bytes * count_;
  if (!rows.empty() && bytes > 0) {
    std::vector<std::byte>& copies = copies_.emplace_back(added.size_bytes);
    std::byte* to = copies.data();
    for (const uint32_t row : rows) {
      std::memcpy(to, static_cast<const std::byte*>(array.data) + row * bytes, bytes);
      to += bytes;
    }
    added.data = copies.data();
  }
  buffers_.push_back(added);
}

RowReader::RowReader(const TapSite& site, const Record& whole, uint32_t rows)
    : record_(whole), skipped_before_(whole.skipped) {
  const size_t leaves = site.info.leaf_names.size();
  leaves_ = whole.buffers.first(leaves);
  size_t next = leaves;
  record_.site = &site.info;
  record_.step = std::nullopt;
  if (site.info.has_step) steps_ = &whole.buffers[next++];
  if (site.info.has_offsets) offsets_ = OffsetsOfRows({.leaves = leaves_, .offsets = &whole.buffers[next++]});
  if (!site.throttle->AdmitsAll()) skipped_ = static_cast<const uint32_t*>(whole.buffers[next++].data);
  if (site.hand_over != 0) turns_ = static_cast<const uint32_t*>(whole.buffers[next].data);
  buffers_.reserve(leaves);
  for (const callout_buffer& leaf : leaves_) buffers_.push_back(rows > 0 ? RowOf(leaf, 0) : leaf);
  blocks_.resize(leaves);
  record_.buffers = buffers_;
  record_.blocks = blocks_.data();
  record_.offsets = offsets_;
}

const Record& RowReader::Read(uint32_t row, uint64_t sequence) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    callout_buffer& buffer = buffers_[i];
    if (buffer.size_bytes > 0) buffer.data = static_cast<std::byte*>(leaves_[i].data) + row * buffer.size_bytes;
  }
  if (steps_ != nullptr) record_.step = FirstInteger(RowOf(*steps_, row));
  record_.sequence = sequence;
  record_.skipped = (skipped_ == nullptr ? 0 : skipped_[row]) + std::exchange(skipped_before_, 0);
  return record_;
}

}  // namespace callout::internal
