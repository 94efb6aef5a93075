// SPDX-License-Identifier: Apache-2.0
//
// Reads Arrow IPC streams that sinks wrote. The files may hold anything: the reader neither reads nor allocates more
// than the file holds.
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
  /// Reads the schema from the first `size` bytes of a file that is open for reading. The caller keeps `fd`.
  /// InvalidArgument for other files. A stream that ends before its schema does has no columns, and end() is 0.
  static Result<ArrowReader> Open(int fd, uint64_t size);

  const std::vector<ArrowColumn>& columns() const { return columns_; }
  /// Goes on to the next batch. Returns false if no whole batch follows. InvalidArgument for a malformed one.
  Result<bool> Next();
  /// The number of rows of the current batch.
  uint64_t rows() const { return rows_; }
  /// The offset at which the current batch ends; before the first batch, at which the schema ends.
  uint64_t end() const { return end_; }

  struct Values {
    std::vector<bool> valid;  ///< Empty if all rows are valid.
    std::string data;         ///< The bytes of all rows. A bool has a byte.
    std::vector<uint32_t> ends = {};
    std::string_view TextAt(size_t row) const;
    bool IsValid(size_t row) const { return valid.empty() || valid[row]; }
  };
  /// Reads a column of the current batch. InvalidArgument for buffers that lie outside of the file or are too small.
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
  std::vector<Place> places_;  // Where the buffers of the batch lie in the file.
};

}  // namespace callout::internal
