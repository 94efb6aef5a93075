// SPDX-License-Identifier: Apache-2.0
//
// Rows on their way to a batch of an Arrow IPC stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arrays/arrow_schema.h"

namespace callout::internal {

/// The rows of one column. Not thread-safe.
class ArrowColumnRows {
 public:
  explicit ArrowColumnRows(const ArrowColumn& column) : column_(&column) {}

  void AddText(std::string_view text);
  template <typename T>
  void AddNumber(T value) {
    data_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  /// All bytes of the row: bools have a byte each.
  void AddBytes(std::string_view bytes) { data_.append(bytes); }
  /// `row` is how many rows there are already.
  void AddNull(size_t row);

  size_t bytes() const { return data_.size(); }

 private:
  friend class ArrowBatch;
  enum class Part : uint8_t { kValid, kEnds, kNothing, kData };  // a buffer of the body
  std::span<const Part> parts() const;
  uint64_t BytesOf(Part part, size_t rows) const;
  void Append(Part part, size_t rows, std::string& out) const;
  void Clear();

  const ArrowColumn* column_;
  std::string data_;           // of texts: all of them
  std::vector<int32_t> ends_;  // of texts
  std::vector<size_t> nulls_;  // rows
};

/// Not thread-safe.
class ArrowBatch {
 public:
  /// Borrowed: `columns` outlive it.
  explicit ArrowBatch(const std::vector<ArrowColumn>& columns);

  ArrowColumnRows& column(size_t i) { return columns_[i]; }
  size_t columns() const { return columns_.size(); }
  /// After each column got its row. Returns whether it is time to write them.
  bool EndRow();
  size_t rows() const { return rows_; }
  /// Appends the message with its body, and begins anew.
  void Write(std::string& out);
  void Clear();

 private:
  std::vector<ArrowColumnRows> columns_;
  size_t rows_ = 0;
};

}  // namespace callout::internal
