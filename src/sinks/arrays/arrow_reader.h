// SPDX-License-Identifier: Apache-2.0
//
// Reads Arrow IPC streams that sinks wrote, of files that may hold anything: nothing is read or allocated that does not
// lie in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "sinks/arrays/arrow_batch.h"

namespace callout::internal {

/// Not thread-safe.
class CALLOUT_EXPORT ArrowReader {
 public:
  /// The schema in the first `size` bytes of a file that is open for reading, which stays the caller's. InvalidArgument
  /// for other files. A stream that ends before its schema does has no columns, and ends at 0.
  static Result<ArrowReader> Open(int fd, uint64_t size);

  const std::vector<ArrowColumn>& columns() const { return columns_; }
  /// Goes on to the next batch; false where no whole one follows. InvalidArgument for a malformed one.
  Result<bool> Next();
  /// The number of rows of the batch.
  uint64_t rows() const { return rows_; }
  /// Where the batch ends, or the schema before the first.
  uint64_t end() const { return end_; }

  struct Values {
    std::vector<bool> valid;  ///< Empty: all are.
    std::string data;         ///< Of all rows; bools have a byte each.
    std::vector<uint32_t> ends = {};
    std::string_view TextAt(size_t row) const;
    bool IsValid(size_t row) const { return valid.empty() || valid[row]; }
  };
  /// What a column has in the batch. InvalidArgument for buffers that lie outside or are too small.
  Result<Values> Read(size_t column) const;

 private:
  struct Place {
    uint64_t offset;
    uint64_t bytes;
  };

  ArrowReader(int fd, uint64_t size) : fd_(fd), size_(size) {}
  Result<std::string> ReadBytes(uint64_t offset, uint64_t bytes) const;
  Result<bool> ReadMessage(std::string& message, uint64_t& body) const;
  Status TakeBatch(const FlatTable& batch, uint64_t body, uint64_t body_bytes);
  Result<std::string> ReadPlace(const Place& place, uint64_t needed) const;

  int fd_;
  uint64_t size_;
  uint64_t end_ = 0;
  uint64_t rows_ = 0;
  std::vector<ArrowColumn> columns_;
  std::vector<Place> places_;  // of the batch's buffers, in the file
};

}  // namespace callout::internal
