// SPDX-License-Identifier: Apache-2.0
//
// Arrow IPC streams (arrow.apache.org/docs/format/Columnar.html), as far as sinks write them: the columns, the
// message that describes them, and rows on their way to a batch.
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
  DType dtype = DType::kInvalid;  ///< Of a number, or of a tensor's elements: a bool, an integer or a float.
  bool is_tensor = false;         ///< arrow.fixed_shape_tensor
  std::vector<int64_t> shape = {};

  /// 1 for what is no tensor.
  int64_t elements() const;
  /// Nodes and buffers that it has in a batch.
  size_t nodes() const { return is_tensor ? 2 : 1; }
  size_t buffers() const { return kind == Kind::kText || is_tensor ? 3 : 2; }
  /// Bytes of so many rows; of texts of their ends.
  uint64_t BytesOf(uint64_t rows) const;
  friend bool operator==(const ArrowColumn&, const ArrowColumn&) = default;
};

/// The kinds of messages, as in their headers.
inline constexpr int64_t kArrowSchema = 1, kArrowBatch = 3;
inline constexpr uint64_t kArrowAlignment = 8;

/// What stands before the body of each message: a mark, the length and the message, padded.
std::string ArrowMessage(const FlatWriter& message);

/// The stream's first message.
std::string SchemaMessage(const std::vector<ArrowColumn>& columns);

/// The columns that a schema (Schema.fbs) has. InvalidArgument for what is no schema, for columns that no sink writes
/// and for other bytes.
Result<std::vector<ArrowColumn>> ParseArrowSchema(const FlatTable& schema);

// Rows on their way to a batch of an Arrow IPC stream.

/// The rows of one column. Not thread-safe.
class ArrowColumnRows {
 public:
  explicit ArrowColumnRows(const ArrowColumn& column);

  /// Bytes of a row in memory, where bools have one each; 0 of texts.
  uint64_t row_bytes() const { return row_bytes_; }
  /// A batch has one such row, which is not copied.
  bool is_large() const { return row_bytes_ >= kLargeRow; }

  /// The same text in so many rows.
  void AddTexts(std::string_view text, size_t rows);
  /// A number of as many bytes as a row has.
  template <typename T>
  void AddNumber(T value) {
    std::memcpy(end_, &value, sizeof(value));
    end_ += sizeof(value);
  }
  template <typename T>
  void AddNumbers(T value, size_t rows) {
    for (size_t i = 0; i < rows; ++i) AddNumber(value);
  }
  /// All bytes of a row. Borrowed: those of a large one stay until the batch is cleared.
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
  /// `row` is how many rows there are already.
  void AddNull(size_t row);
  /// What a row of other elements was converted to, kept until the next one.
  std::string& converted() { return converted_; }

 private:
  friend class ArrowBatch;
  static constexpr uint64_t kLargeRow = 64 << 10;
  enum class Part : uint8_t { kValid, kEnds, kNothing, kData };  // a buffer of the body
  std::span<const Part> parts() const;
  void Reserve(size_t rows);
  /// Appends the views of a part. Borrowed: valid until more is added.
  void AppendViews(Part part, size_t rows, std::vector<std::string_view>& views);
  void Clear();

  const ArrowColumn* column_;
  uint64_t row_bytes_;
  std::unique_ptr<char[]> memory_;  // of all rows that a batch can have
  char* end_ = nullptr;
  const char* large_ = nullptr;
  std::string texts_;
  std::vector<int32_t> ends_;  // of texts
  std::vector<size_t> nulls_;  // rows
  std::string converted_;
  std::string valid_bits_, bits_;  // of a batch
};

/// Not thread-safe.
class ArrowBatch {
 public:
  /// Borrowed: `columns` outlive it.
  explicit ArrowBatch(const std::vector<ArrowColumn>& columns);

  ArrowColumnRows& column(size_t i) { return columns_[i]; }
  size_t columns() const { return columns_.size(); }
  /// Each column of numbers got its row, and those of texts get, until the batch is written, so many bytes. Returns
  /// whether it is time to write.
  bool EndRow(size_t text_bytes) {
    ++rows_;
    bytes_ += row_bytes_ + text_bytes;
    return bytes_ >= kWriteAt;
  }
  size_t rows() const { return rows_; }
  /// The message with its body. Borrowed: valid until the batch changes.
  std::span<const std::string_view> Message();
  /// Begins anew.
  void Clear();

 private:
  static constexpr uint64_t kWriteAt = 256 << 10;  // bytes of a batch, or more where one row has more
  std::string Head(std::span<const int64_t> nodes, std::span<const int64_t> places, uint64_t body) const;

  std::vector<ArrowColumnRows> columns_;
  uint64_t row_bytes_ = 1;  // kWriteAt at most
  uint64_t bytes_ = 0;
  size_t rows_ = 0;
  std::string head_;
  std::vector<std::string_view> views_;
  std::vector<int64_t> nodes_, places_;
};

}  // namespace callout::internal
