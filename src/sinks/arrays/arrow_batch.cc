// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/arrow_batch.h"

#include <algorithm>

namespace callout::internal {
namespace {

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

uint64_t Padding(uint64_t bytes) { return (kArrowAlignment - bytes % kArrowAlignment) % kArrowAlignment; }

// Of zeros that are in memory once.
void AppendZeros(uint64_t bytes, std::vector<std::string_view>& views) {
  static constexpr char kZeros[64 << 10] = {};
  for (; bytes > sizeof(kZeros); bytes -= sizeof(kZeros)) views.emplace_back(kZeros, sizeof(kZeros));
  if (bytes > 0) views.emplace_back(kZeros, bytes);
}

}  // namespace

ArrowColumnRows::ArrowColumnRows(const ArrowColumn& column)
    : column_(&column),
      row_bytes_(column.kind == ArrowColumn::Kind::kText
                     ? 0
                     : static_cast<uint64_t>(column.elements()) * static_cast<uint64_t>(BitWidth(column.dtype) / 8)) {}

void ArrowColumnRows::Reserve(size_t rows) {
  if (!is_large()) memory_ = std::make_unique_for_overwrite<char[]>(rows * row_bytes_);
  end_ = memory_.get();
}

void ArrowColumnRows::AddTexts(std::string_view text, size_t rows) {
  const size_t bytes = texts_.size(), before = ends_.size();
  texts_.resize(bytes + rows * text.size());
  ends_.resize(before + rows);
  char* const to = texts_.data() + bytes;
  const size_t all = rows * text.size();
  std::copy_n(text.data(), std::min(text.size(), all), to);
  for (size_t done = text.size(); done < all; done *= 2) std::copy_n(to, std::min(done, all - done), to + done);
  for (size_t i = 0; i < rows; ++i) ends_[before + i] = static_cast<int32_t>(bytes + (i + 1) * text.size());
}

void ArrowColumnRows::AddNull(size_t row) {
  nulls_.push_back(row);
  if (column_->kind == ArrowColumn::Kind::kText) return ends_.push_back(static_cast<int32_t>(texts_.size()));
  if (is_large()) return;
  std::fill_n(end_, row_bytes_, '\0');
  end_ += row_bytes_;
}

void ArrowColumnRows::Clear() {
  end_ = memory_.get();
  large_ = nullptr;
  texts_.clear();
  ends_.clear();
  nulls_.clear();
  valid_bits_.clear();
  bits_.clear();
}

void ArrowColumnRows::AppendViews(Part part, size_t rows, std::vector<std::string_view>& views) {
  static constexpr char kBeginOfEnds[sizeof(int32_t)] = {};
  const bool is_text = column_->kind == ArrowColumn::Kind::kText;
  if (part == Part::kValid && !nulls_.empty()) {
    std::string valid(rows, '\1');
    for (const size_t row : nulls_) valid[row] = '\0';
    AppendBits(valid, valid_bits_);
    views.emplace_back(valid_bits_);
  } else if (part == Part::kEnds) {
    views.emplace_back(kBeginOfEnds, sizeof(kBeginOfEnds));
    views.emplace_back(reinterpret_cast<const char*>(ends_.data()), ends_.size() * sizeof(int32_t));
  } else if (part == Part::kData && is_text) {
    views.emplace_back(texts_);
  } else if (part == Part::kData && is_large() && large_ == nullptr) {  // a null
    AppendZeros(column_->BytesOf(rows), views);
  } else if (part == Part::kData) {
    const std::string_view bytes = is_large()
                                       ? std::string_view(large_, row_bytes_)
                                       : std::string_view(memory_.get(), static_cast<size_t>(end_ - memory_.get()));
    if (column_->dtype == DType::kBool) AppendBits(bytes, bits_);
    views.emplace_back(column_->dtype == DType::kBool ? bits_ : bytes);
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

ArrowBatch::ArrowBatch(const std::vector<ArrowColumn>& columns) {
  for (const ArrowColumn& column : columns) {
    ArrowColumnRows& rows = columns_.emplace_back(column);
    row_bytes_ = std::min(kWriteAt, row_bytes_ + std::min(kWriteAt, rows.row_bytes()));
    if (rows.is_large()) row_bytes_ = kWriteAt;
  }
  const size_t most = (kWriteAt + row_bytes_ - 1) / row_bytes_;
  for (ArrowColumnRows& column : columns_) column.Reserve(most);
}

void ArrowBatch::Clear() {
  for (ArrowColumnRows& column : columns_) column.Clear();
  rows_ = 0;
  bytes_ = 0;
}

std::string ArrowBatch::Head(std::span<const int64_t> nodes, std::span<const int64_t> places, uint64_t body) const {
  FlatWriter message;
  const auto root = message.AddTable({FlatField::Number(2, 4), FlatField::Number(1, kArrowBatch),
                                      FlatField::Reference(), FlatField::Number(8, static_cast<int64_t>(body))});
  const auto batch = message.AddTable(
      {FlatField::Number(8, static_cast<int64_t>(rows_)), FlatField::Reference(), FlatField::Reference()});
  message.Point(root.fields[2], batch.position);
  message.Point(batch.fields[1], message.AddNumbers(nodes, 2));
  message.Point(batch.fields[2], message.AddNumbers(places, 2));
  return ArrowMessage(message);
}

std::span<const std::string_view> ArrowBatch::Message() {
  const auto rows = static_cast<int64_t>(rows_);
  nodes_.clear();
  places_.clear();
  views_.assign(1, {});
  uint64_t body = 0;
  for (ArrowColumnRows& column : columns_) {
    nodes_.insert(nodes_.end(), {rows, static_cast<int64_t>(column.nulls_.size())});
    if (column.column_->is_tensor) nodes_.insert(nodes_.end(), {rows * column.column_->elements(), 0});
    for (const ArrowColumnRows::Part part : column.parts()) {
      const size_t first = views_.size();
      column.AppendViews(part, rows_, views_);
      uint64_t bytes = 0;
      for (size_t i = first; i < views_.size(); ++i) bytes += views_[i].size();
      places_.insert(places_.end(), {static_cast<int64_t>(body), static_cast<int64_t>(bytes)});
      AppendZeros(Padding(bytes), views_);
      body += bytes + Padding(bytes);
    }
  }
  head_ = Head(nodes_, places_, body);
  views_[0] = head_;
  return views_;
}

}  // namespace callout::internal
