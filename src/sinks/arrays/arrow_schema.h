// SPDX-License-Identifier: Apache-2.0
//
// The columns of an Arrow IPC stream (arrow.apache.org/docs/format/Columnar.html), as far as sinks write them, and the
// message that says what they are.
#pragma once

#include <cstdint>
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

}  // namespace callout::internal
