// SPDX-License-Identifier: Apache-2.0
#include "arrays/arrow_batch.h"

#include <algorithm>

namespace callout::internal {
namespace {

constexpr size_t kWriteAt = 256 << 10;    // bytes of a batch, or more where one row has more
constexpr size_t kKeepBytes = 4U << 20U;  // of a column's memory, between batches

// One bit a byte that is not zero, low bits first.
void AppendBits(std::string_view bytes, std::string& out) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    unsigned bits = 0;
    for (size_t bit = 0; bit < std::min<size_t>(8, bytes.size() - i); ++bit) {
      bits |= (bytes[i + bit] != 0 ? 1U : 0U) << bit;
    }
    out += static_cast<char>(static_cast<unsigned char>(bits));
  }
}

uint64_t Padded(uint64_t bytes) { return (bytes + kArrowAlignment - 1) / kArrowAlignment * kArrowAlignment; }

}  // namespace

void ArrowColumnRows::AddText(std::string_view text) {
  data_.append(text);
  ends_.push_back(static_cast<int32_t>(data_.size()));
}

void ArrowColumnRows::AddNull(size_t row) {
  nulls_.push_back(row);
  if (column_->kind == ArrowColumn::Kind::kText) return ends_.push_back(static_cast<int32_t>(data_.size()));
  const auto elements = static_cast<size_t>(column_->elements());
  data_.resize(data_.size() + elements * static_cast<size_t>(BitWidth(column_->dtype) / 8));
}

void ArrowColumnRows::Clear() {
  data_.clear();
  if (data_.capacity() > kKeepBytes) data_.shrink_to_fit();
  ends_.clear();
  nulls_.clear();
}

ArrowBatch::ArrowBatch(const std::vector<ArrowColumn>& columns) {
  for (const ArrowColumn& column : columns) columns_.emplace_back(column);
}

bool ArrowBatch::EndRow() {
  ++rows_;
  size_t bytes = 0;
  for (const ArrowColumnRows& column : columns_) bytes += column.bytes();
  return bytes >= kWriteAt;
}

void ArrowBatch::Clear() {
  for (ArrowColumnRows& column : columns_) column.Clear();
  rows_ = 0;
}

uint64_t ArrowColumnRows::BytesOf(Part part, size_t rows) const {
  switch (part) {
    case Part::kValid:
      return nulls_.empty() ? 0 : (rows + 7) / 8;
    case Part::kEnds:
      return sizeof(int32_t) * (rows + 1);
    case Part::kNothing:
      return 0;
    case Part::kData:
      return column_->dtype == DType::kBool ? (data_.size() + 7) / 8 : data_.size();
  }
  return 0;
}

void ArrowColumnRows::Append(Part part, size_t rows, std::string& out) const {
  if (part == Part::kValid && !nulls_.empty()) {
    std::string valid(rows, '\1');
    for (const size_t row : nulls_) valid[row] = '\0';
    AppendBits(valid, out);
  } else if (part == Part::kEnds) {
    out.append(sizeof(int32_t), '\0');
    out.append(reinterpret_cast<const char*>(ends_.data()), ends_.size() * sizeof(int32_t));
  } else if (part == Part::kData && column_->dtype == DType::kBool) {
    AppendBits(data_, out);
  } else if (part == Part::kData) {
    out.append(data_);
  }
}

std::span<const ArrowColumnRows::Part> ArrowColumnRows::parts() const {
  static constexpr Part kOfNumbers[] = {Part::kValid, Part::kData},
                        kOfTexts[] = {Part::kValid, Part::kEnds, Part::kData},
                        kOfTensors[] = {Part::kValid, Part::kNothing, Part::kData};
  if (column_->kind == ArrowColumn::Kind::kText) return kOfTexts;
  if (column_->is_tensor) return kOfTensors;
  return kOfNumbers;
}

void ArrowBatch::Write(std::string& out) {
  const auto rows = static_cast<int64_t>(rows_);
  std::vector<int64_t> nodes, places;
  uint64_t body = 0;
  for (const ArrowColumnRows& column : columns_) {
    nodes.insert(nodes.end(), {rows, static_cast<int64_t>(column.nulls_.size())});
    if (column.column_->is_tensor) nodes.insert(nodes.end(), {rows * column.column_->elements(), 0});
    for (const ArrowColumnRows::Part part : column.parts()) {
      const uint64_t bytes = column.BytesOf(part, rows_);
      places.insert(places.end(), {static_cast<int64_t>(body), static_cast<int64_t>(bytes)});
      body += Padded(bytes);
    }
  }
  FlatWriter message;
  const auto root = message.AddTable({FlatField::Number(2, 4), FlatField::Number(1, kArrowBatch),
                                      FlatField::Reference(), FlatField::Number(8, static_cast<int64_t>(body))});
  const auto batch = message.AddTable({FlatField::Number(8, rows), FlatField::Reference(), FlatField::Reference()});
  message.Point(root.fields[2], batch.position);
  message.Point(batch.fields[1], message.AddNumbers(nodes, 2));
  message.Point(batch.fields[2], message.AddNumbers(places, 2));
  const std::string head = ArrowMessage(message);
  out.reserve(out.size() + head.size() + body);
  out += head;
  const size_t begin = out.size();
  for (const ArrowColumnRows& column : columns_) {
    for (const ArrowColumnRows::Part part : column.parts()) {
      column.Append(part, rows_, out);
      out.resize(begin + Padded(out.size() - begin));
    }
  }
  Clear();
}

}  // namespace callout::internal
