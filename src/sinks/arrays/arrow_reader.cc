// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/arrow_reader.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/cat.h"

namespace callout::internal {
namespace {

constexpr uint64_t kHead = 8;  // The mark and the length.
constexpr uint64_t kMaxMessage = 64 << 20;
constexpr int64_t kMaxRows = int64_t{1} << 31U;

Status MalformedBatch() { return InvalidArgument("one of its batches is malformed"); }

bool Bit(std::string_view bits, size_t i) { return (static_cast<unsigned char>(bits[i / 8]) >> (i % 8) & 1U) != 0; }

}  // namespace

std::string_view ArrowReader::Values::TextAt(size_t row) const {
  const uint32_t begin = row == 0 ? 0 : ends[row - 1];
  return std::string_view(data).substr(begin, ends[row] - begin);
}

Result<std::string> ArrowReader::ReadBytes(uint64_t offset, uint64_t bytes) const {
  std::string data(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = pread(fd_, data.data() + at, bytes - at, static_cast<off_t>(offset + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return InternalError(n < 0 ? std::strerror(errno) : "it became shorter meanwhile");
    at += static_cast<size_t>(n);
  }
  return data;
}

// Returns false at the end of the stream, and where no whole message follows.
Result<bool> ArrowReader::ReadMessage(std::string& message, uint64_t& body) const {
  constexpr std::string_view kMark = "\xFF\xFF\xFF\xFF";
  const uint64_t there = std::min(size_ - end_, kHead);
  CALLOUT_ASSIGN_OR_RETURN(const std::string head, ReadBytes(end_, there));
  if (!head.starts_with(kMark.substr(0, there))) {
    return InvalidArgument(Cat("it is no Arrow stream, or it is damaged at byte ", end_));
  }
  if (there < kHead) return false;
  uint32_t length = 0;
  std::memcpy(&length, head.data() + kMark.size(), sizeof(length));
  if (length == 0) return false;
  if (length > kMaxMessage) return InvalidArgument(Cat("it has a message of ", length, " bytes"));
  if (size_ - end_ - kHead < length) return false;
  body = end_ + kHead + length;
  CALLOUT_ASSIGN_OR_RETURN(message, ReadBytes(end_ + kHead, length));
  return true;
}

Result<ArrowReader> ArrowReader::Open(int fd, uint64_t size) {
  ArrowReader reader(fd, size);
  std::string message;
  uint64_t body = 0;
  CALLOUT_ASSIGN_OR_RETURN(const bool is_there, reader.ReadMessage(message, body));
  if (!is_there) return reader;
  const auto root = FlatTable::Root(message);
  if (!root || root->Number(1, 1, 0) != kArrowSchema) return InvalidArgument("it does not begin with a schema");
  const auto schema = root->Table(2);
  if (!schema) return InvalidArgument("its schema is malformed");
  CALLOUT_ASSIGN_OR_RETURN(reader.columns_, ParseArrowSchema(*schema));
  reader.end_ = body;
  return reader;
}

Result<bool> ArrowReader::Next() {
  rows_ = 0;
  if (columns_.empty()) return false;
  std::string message;
  uint64_t body = 0;
  CALLOUT_ASSIGN_OR_RETURN(const bool is_there, ReadMessage(message, body));
  if (!is_there) return false;
  const auto root = FlatTable::Root(message);
  const int64_t type = root ? root->Number(1, 1, 0).value_or(-1) : -1;
  const int64_t bytes = root ? root->Number(3, 8, 0).value_or(-1) : -1;
  const auto batch = root ? root->Table(2) : std::nullopt;
  if (bytes < 0 || !batch || type != kArrowBatch) return MalformedBatch();
  if (size_ - body < static_cast<uint64_t>(bytes)) return false;
  CALLOUT_RETURN_IF_ERROR(TakeBatch(*batch, body, static_cast<uint64_t>(bytes)));
  end_ = body + static_cast<uint64_t>(bytes);
  return true;
}

Status ArrowReader::TakeBatch(const FlatTable& batch, uint64_t body, uint64_t body_bytes) {
  size_t buffers = 0;
  for (const ArrowColumn& column : columns_) buffers += column.buffers();
  const auto rows = batch.Number(0, 8, 0);
  if (!rows || *rows < 0 || *rows > kMaxRows || batch.Has(3) || batch.Count(2, 16) != buffers) return MalformedBatch();
  places_.clear();
  for (size_t i = 0; i < buffers; ++i) {
    const auto offset = batch.NumberAt(2, 16, i, 0), bytes = batch.NumberAt(2, 16, i, 8);
    if (!offset || !bytes || *offset < 0 || *bytes < 0 || static_cast<uint64_t>(*offset) > body_bytes ||
        static_cast<uint64_t>(*bytes) > body_bytes - static_cast<uint64_t>(*offset)) {
      return MalformedBatch();
    }
    places_.push_back({body + static_cast<uint64_t>(*offset), static_cast<uint64_t>(*bytes)});
  }
  rows_ = static_cast<uint64_t>(*rows);
  return OkStatus();
}

Result<std::string> ArrowReader::ReadPlace(const Place& place, uint64_t needed) const {
  if (place.bytes < needed) return MalformedBatch();
  return ReadBytes(place.offset, needed);
}

Result<ArrowReader::Values> ArrowReader::Read(size_t column) const {
  size_t first = 0;
  for (size_t i = 0; i < column; ++i) first += columns_[i].buffers();
  const ArrowColumn& of = columns_[column];
  Values values;
  if (places_[first].bytes > 0) {
    CALLOUT_ASSIGN_OR_RETURN(const std::string bits, ReadPlace(places_[first], (rows_ + 7) / 8));
    for (size_t row = 0; row < rows_; ++row) values.valid.push_back(Bit(bits, row));
  }
  uint64_t needed = 0;
  if (__builtin_mul_overflow(rows_, static_cast<uint64_t>(of.elements()), &needed) || needed > size_ * 8) {
    return MalformedBatch();
  }
  needed = of.BytesOf(rows_);
  if (of.kind != ArrowColumn::Kind::kText) {
    CALLOUT_ASSIGN_OR_RETURN(values.data, ReadPlace(places_[first + of.buffers() - 1], needed));
    if (of.dtype != DType::kBool) return values;
    std::string bools(rows_ * static_cast<size_t>(of.elements()), '\0');
    for (size_t i = 0; i < bools.size(); ++i) bools[i] = Bit(values.data, i) ? '\1' : '\0';
    values.data = std::move(bools);
    return values;
  }
  if (rows_ == 0) return values;
  CALLOUT_ASSIGN_OR_RETURN(const std::string ends, ReadPlace(places_[first + 1], needed));
  values.ends.resize(rows_);
  std::memcpy(values.ends.data(), ends.data() + sizeof(uint32_t), rows_ * sizeof(uint32_t));
  uint32_t before = 0;
  std::memcpy(&before, ends.data(), sizeof(before));
  if (before != 0) return MalformedBatch();
  for (const uint32_t end : values.ends) {
    if (end < before) return MalformedBatch();
    before = end;
  }
  CALLOUT_ASSIGN_OR_RETURN(values.data, ReadPlace(places_[first + 2], before));
  return values;
}

}  // namespace callout::internal
