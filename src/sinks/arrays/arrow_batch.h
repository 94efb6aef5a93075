// SPDX-License-Identifier: Apache-2.0
//
// The part of Arrow IPC streams (arrow.apache.org/docs/format/Columnar.html) that sinks write: the columns, the message
// that describes them, and batches of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/dtype.h"
#include "callout/status.h"
#include "sinks/arrays/flat_buffer.h"

namespace callout::internal {

struct ArrowColumn {
  enum class Kind : uint8_t { kText, kTime, kNumber };  ///< Times are microseconds since 1970, UTC.

  std::string name;
  Kind kind = Kind::kNumber;
  DType dtype = DType::kInvalid;  ///< The type of a number, or of a tensor's elements: a bool, an integer or a float.
  bool is_tensor = false;         ///< The column has the extension type arrow.fixed_shape_tensor.
  std::vector<int64_t> shape = {};

  /// The number of elements of a row; 1 if the column is no tensor.
  int64_t elements() const;
  /// The number of nodes, and of buffers, that the column has in a batch.
  size_t nodes() const { return is_tensor ? 2 : 1; }
  size_t buffers() const { return kind == Kind::kText || is_tensor ? 3 : 2; }
  /// The number of bytes of `rows` rows. For texts, only their end offsets count.
  uint64_t BytesOf(uint64_t rows) const;
  friend bool operator==(const ArrowColumn&, const ArrowColumn&) = default;
};

/// The kinds of messages, with the numbers that stand in message headers.
inline constexpr int64_t kArrowSchema = 1, kArrowBatch = 3;
inline constexpr uint64_t kArrowAlignment = 8;

/// Returns what precedes the body of each message: a mark, the length and the message, padded.
std::string ArrowMessage(const FlatWriter& message);

/// Returns the schema message, which begins the stream.
std::string SchemaMessage(const std::vector<ArrowColumn>& columns);

/// Returns the columns of a schema (Schema.fbs). InvalidArgument if the bytes are no schema, or describe columns that
/// no sink writes.
Result<std::vector<ArrowColumn>> ParseArrowSchema(const FlatTable& schema);

/// The rows of one column on their way to a batch of an Arrow IPC stream. Not thread-safe.
class ArrowColumnRows {
 public:
  explicit ArrowColumnRows(const ArrowColumn& column);

  /// The number of bytes of a row in memory, where each bool has a byte; 0 for texts.
  uint64_t row_bytes() const { return row_bytes_; }
  /// True if a row is so large that it is not copied and that a batch holds a single one.
  bool is_large() const { return row_bytes_ >= kLargeRow; }

  /// Adds `rows` rows with the same text.
  void AddTexts(std::string_view text, size_t rows);
  /// Adds a row that is a number. Requires that T is as large as a row.
  template <typename T>
  void AddNumber(T value) {
    std::memcpy(end_, &value, sizeof(value));
    end_ += sizeof(value);
  }
  template <typename T>
  void AddNumbers(T value, size_t rows) {
    for (size_t i = 0; i < rows; ++i) AddNumber(value);
  }
  /// Adds a row from its bytes. Borrowed: the bytes of a large row must stay until the batch is cleared.
  void AddBytes(const void* bytes) {
    if (row_bytes_ == sizeof(float)) {
      std::memcpy(end_, bytes, sizeof(float));
    } else if (row_bytes_ < kLargeRow) {
      if (row_bytes_ > 0) std::memcpy(end_, bytes, row_bytes_);
    } else {
      large_ = static_cast<const char*>(bytes);
      return;
    }
    end_ += row_bytes_;
  }
  /// Adds a row without a value. `row` is the number of rows that the column has already.
  void AddNull(size_t row);
  /// Memory for a row whose elements had to be converted. Valid until the next row is converted.
  std::string& converted() { return converted_; }

 private:
  friend class ArrowBatch;
  static constexpr uint64_t kLargeRow = 64 << 10;
  enum class Part : uint8_t { kValid, kEnds, kNothing, kData };  // Kinds of buffers in a message's body.
  std::span<const Part> parts() const;
  void Reserve(size_t rows);
  /// Appends views of the bytes of one part. Borrowed: valid until rows are added.
  void AppendViews(Part part, size_t rows, std::vector<std::string_view>& views);
  void Clear();

  const ArrowColumn* column_;
  uint64_t row_bytes_;
  std::unique_ptr<char[]> memory_;  // Has room for all rows of a batch.
  char* end_ = nullptr;
  const char* large_ = nullptr;
  std::string texts_;
  std::vector<int32_t> ends_;  // End offsets of texts.
  std::vector<size_t> nulls_;  // Numbers of the rows without a value.
  std::string converted_;
  std::string valid_bits_, bits_;  // Bitmaps of one batch.
};

/// The rows of all columns on their way to one message. Not thread-safe.
class ArrowBatch {
 public:
  /// Borrowed: `columns` must outlive the batch.
  explicit ArrowBatch(const std::vector<ArrowColumn>& columns);

  ArrowColumnRows& column(size_t i) { return columns_[i]; }
  size_t columns() const { return columns_.size(); }
  /// Ends a row. Every column of numbers has got its value; columns of texts get theirs, `text_bytes` in total, before
  /// the batch is written. Returns true if the batch should be written.
  bool EndRow(size_t text_bytes) {
    ++rows_;
    bytes_ += row_bytes_ + text_bytes;
    return bytes_ >= kWriteAt;
  }
  size_t rows() const { return rows_; }
  /// Returns the message with its body. Borrowed: valid until the batch changes.
  std::span<const std::string_view> Message();
  /// Removes all rows.
  void Clear();

 private:
  static constexpr uint64_t kWriteAt = 256 << 10;  // In bytes. A single larger row makes a larger batch.
  std::string Head(std::span<const int64_t> nodes, std::span<const int64_t> places, uint64_t body) const;

  std::vector<ArrowColumnRows> columns_;
  uint64_t row_bytes_ = 1;  // At most kWriteAt.
  uint64_t bytes_ = 0;
  size_t rows_ = 0;
  std::string head_;
  std::vector<std::string_view> views_;
  std::vector<int64_t> nodes_, places_;
};

}  // namespace callout::internal
