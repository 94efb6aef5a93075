// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/row_log.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/cat.h"

namespace callout::internal {
namespace {

constexpr size_t kWriteRowsAt = 256 << 10;  // In bytes. A row of at least a quarter of this is not copied.

}  // namespace

Status WriteBytesAt(int fd, uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return InternalError(n < 0 ? std::strerror(errno) : "nothing was written");
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

Status RowLog::Add(std::string_view row) {
  if (row.size() >= kWriteRowsAt / 4) {
    Status before = Write();
    Status status = WriteRows(row, 1);
    return before.ok() ? std::move(status) : std::move(before);
  }
  pending_.append(row);
  ++pending_rows_;
  return pending_.size() >= kWriteRowsAt ? Write() : OkStatus();
}

Status RowLog::Write() {
  if (pending_rows_ == 0) return OkStatus();
  Status status = WriteRows(pending_, pending_rows_);
  pending_.clear();
  pending_rows_ = 0;
  return status;
}

Status RowLog::WriteRows(std::string_view bytes, uint64_t rows) {
  while (rows > 0) {
    const Result<Place> place = Find(rows_);
    const uint64_t some = place.ok() ? std::min(rows, place->rows) : 0;
    const Status status =
        place.ok() ? WriteBytesAt(place->fd, place->offset, bytes.substr(0, some * row_bytes_)) : place.status();
    if (!status.ok()) {
      rows_ += rows;
      return InternalError(Cat(status.message(), "; ", rows, " records are lost"));
    }
    bytes.remove_prefix(some * row_bytes_);
    rows -= some;
    rows_ += some;
  }
  return OkStatus();
}

}  // namespace callout::internal
