// SPDX-License-Identifier: Apache-2.0
#include "arrays/arrow_batch.h"

#include <algorithm>

namespace callout::internal {
namespace {

constexpr size_t kWriteAt = 256 << 10;    // bytes of a batch, or more where one row has more
constexpr size_t kKeepBytes = 1U << 20U;  // of a column's memory, between batches

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

// The buffers of a body, with what the message says of them.
class Body {
 public:
  explicit Body(std::string& out) : out_(out), begin_(out.size()) {}
  template <typename Append>
  void Add(Append&& append) {
    const size_t begin = out_.size();
    append(out_);
    places_.push_back(static_cast<int64_t>(begin - begin_));
    places_.push_back(static_cast<int64_t>(out_.size() - begin));
    out_.resize(begin_ + (out_.size() - begin_ + kArrowAlignment - 1) / kArrowAlignment * kArrowAlignment);
  }
  const std::vector<int64_t>& places() const { return places_; }
  size_t bytes() const { return out_.size() - begin_; }

 private:
  std::string& out_;
  const size_t begin_;
  std::vector<int64_t> places_;
};

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

void ArrowBatch::Write(std::string& out) {
  std::string bytes;
  Body body(bytes);
  std::vector<int64_t> nodes;
  const auto rows = static_cast<int64_t>(rows_);
  for (const ArrowColumnRows& column : columns_) {
    const auto nulls = static_cast<int64_t>(column.nulls_.size());
    nodes.insert(nodes.end(), {rows, nulls});
    body.Add([&](std::string& to) {
      if (nulls == 0) return;
      std::string valid(rows_, '\1');
      for (const size_t row : column.nulls_) valid[row] = '\0';
      AppendBits(valid, to);
    });
    if (column.column_->kind == ArrowColumn::Kind::kText) {
      body.Add([&](std::string& to) {
        to.append(sizeof(int32_t), '\0');
        to.append(reinterpret_cast<const char*>(column.ends_.data()), column.ends_.size() * sizeof(int32_t));
      });
    }
    if (column.column_->is_tensor) {
      nodes.insert(nodes.end(), {rows * column.column_->elements(), 0});
      body.Add([](std::string&) {});
    }
    body.Add([&](std::string& to) {
      if (column.column_->dtype == DType::kBool) return AppendBits(column.data_, to);
      to.append(column.data_);
    });
  }
  FlatWriter message;
  const auto root =
      message.AddTable({FlatField::Number(2, 4), FlatField::Number(1, kArrowBatch), FlatField::Reference(),
                        FlatField::Number(8, static_cast<int64_t>(body.bytes()))});
  const auto batch = message.AddTable({FlatField::Number(8, rows), FlatField::Reference(), FlatField::Reference()});
  message.Point(root.fields[2], batch.position);
  message.Point(batch.fields[1], message.AddNumbers(nodes, 2));
  message.Point(batch.fields[2], message.AddNumbers(body.places(), 2));
  out += ArrowMessage(message);
  out += bytes;
  Clear();
}

}  // namespace callout::internal
