// SPDX-License-Identifier: Apache-2.0
//
// Rows of one size on their way to files in which each has its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "callout/status.h"

namespace callout::internal {

/// Not thread-safe.
class RowLog {
 public:
  /// Goes on behind so many rows.
  RowLog(uint64_t row_bytes, uint64_t rows) : row_bytes_(row_bytes), rows_(rows) {}
  virtual ~RowLog() = default;
  RowLog(const RowLog&) = delete;
  RowLog& operator=(const RowLog&) = delete;

  /// Keeps a copy of the row, or writes it at once where it is large. Errors: as Write.
  Status Add(std::string_view row);
  /// Writes what was kept. Error: Internal, with errno's text and the number of rows that are lost: their places stay
  /// empty, so that a row has the same place in each file of its record.
  Status Write();
  /// That are written, or lost.
  uint64_t rows() const { return rows_; }
  uint64_t row_bytes() const { return row_bytes_; }

 protected:
  struct Place {
    int fd;
    uint64_t offset;
    uint64_t rows;  ///< That may follow there, 1 at least.
  };
  virtual Result<Place> Find(uint64_t row) = 0;

 private:
  Status WriteRows(std::string_view bytes, uint64_t rows);

  const uint64_t row_bytes_;
  uint64_t rows_;
  std::string pending_;
  uint64_t pending_rows_ = 0;
};

/// Bytes at a place of a file; errno's text if they cannot be written.
Status WriteBytesAt(int fd, uint64_t offset, std::string_view bytes);

}  // namespace callout::internal
