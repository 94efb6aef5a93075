// SPDX-License-Identifier: Apache-2.0
//
// Buffers rows of equal size and writes each to its own position in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "callout/status.h"

namespace callout::internal {

/// A subclass determines the position of each row. Not thread-safe.
class RowLog {
 public:
  /// The first row that is added has the number `rows`.
  RowLog(uint64_t row_bytes, uint64_t rows) : row_bytes_(row_bytes), rows_(rows) {}
  virtual ~RowLog() = default;
  RowLog(const RowLog&) = delete;
  RowLog& operator=(const RowLog&) = delete;

  /// Keeps a copy of the row, or writes a large row at once. Errors: those of Write.
  Status Add(std::string_view row);
  /// Writes the kept rows. Error: Internal, with errno's text and the number of rows that are lost. The positions of
  /// lost rows stay empty, so that a record's row has the same number in every file.
  Status Write();
  /// The number of rows that are written or lost.
  uint64_t rows() const { return rows_; }
  uint64_t row_bytes() const { return row_bytes_; }

 protected:
  struct Place {
    int fd;
    uint64_t offset;
    uint64_t rows;  ///< The number of rows that fit from here on, at least 1.
  };
  virtual Result<Place> Find(uint64_t row) = 0;

 private:
  Status WriteRows(std::string_view bytes, uint64_t rows);

  const uint64_t row_bytes_;
  uint64_t rows_;
  std::string pending_;
  uint64_t pending_rows_ = 0;
};

/// Writes bytes at a position of a file. The error has errno's text.
Status WriteBytesAt(int fd, uint64_t offset, std::string_view bytes);

}  // namespace callout::internal
