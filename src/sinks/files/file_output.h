// SPDX-License-Identifier: Apache-2.0
//
// Whole records on their way to a file that nobody else writes. The file holds whole records only, even if the process
// ends or a write fails: a record that was written in part is cut off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

/// Returns where the last whole record ends in the first `size` bytes of a file that is open for reading. Errors:
/// Internal, with errno's text; InvalidArgument for a file of another kind.
using FindEnd = std::function<Result<uint64_t>(int fd, uint64_t size)>;

/// FindEnd for records that are lines.
Result<uint64_t> EndOfLines(int fd, uint64_t size);

/// FindEnd for records with a length and checksums; see sinks/tf_record.h.
Result<uint64_t> EndOfTfRecords(int fd, uint64_t size);

struct FileOptions {
  static constexpr double kNever = -1;
  static constexpr int kAll = -1;

  /// Append to the contents of the file, without a torn record at its end.
  bool append = false;
  /// The least time between two fsyncs, in seconds. They happen at the end of a batch. 0: one after each batch. kNever:
  /// none.
  double fsync_seconds = kNever;
  /// The size that a file may have. When the next record would make the file larger, it becomes PATH.1, PATH.1 becomes
  /// PATH.2, and so on. 0: no limit. Only for regular files.
  uint64_t rotate_bytes = 0;
  /// The number of renamed files PATH.1, PATH.2, ... that are kept, at least 1; the oldest is deleted. kAll: no limit.
  int keep = kAll;
};

/// Thread-safe. A forked child neither writes nor unlocks anything.
class FileOutput {
 public:
  /// Creates the file at `path` if it is missing, and locks it (flock) against other processes and sinks. `what` names
  /// the contents in errors. Errors: NotFound; PermissionDenied; AlreadyExists, with the writer of the file;
  /// InvalidArgument for options that the file cannot have.
  static Result<std::unique_ptr<FileOutput>> Open(const std::string& path, const FileOptions& options,
                                                  const std::string& what, const FindEnd& find_end = &EndOfLines);
  /// Closes the file, and logs an error.
  ~FileOutput();
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;

  /// The path as the caller gave it.
  const std::string& path() const { return path_; }
  /// Returns whether the file has neither a record nor a header.
  bool empty() const;
  /// Sets the header, which precedes the first record of this file, if it is empty, and of each file after a rotation.
  void SetHeader(std::string header);

  /// Adds a record. `append(std::string&)` appends a whole record, or returns an error. Large amounts are written at
  /// once. If the record is lost, it counts as `records`. Errors: those of Flush; FailedPrecondition after Close.
  template <typename Append>
  Status Add(Append&& append, size_t records = 1) {
    if (IsInChild()) return NotOpen();
    MutexLock lock(mutex_);
    if (!IsOpen()) return NotOpen();
    const size_t begin = pending_.size();
    if (Status status = append(pending_); !status.ok()) {
      pending_.resize(begin);
      return status;
    }
    return EndRecord(begin, records);
  }

  /// Adds one record, or `records` of them, from several pieces of memory. Large amounts are written at once, without a
  /// copy. Errors: those of Add.
  Status AddParts(std::span<const std::string_view> parts, size_t records);

  /// Writes the added records, and the header. Error: Internal, with the path, errno's text and the number of lost
  /// records. Lost records are not retried; later records are written.
  Status Flush();

  /// Writes the added records, and closes and unlocks the file. Returns the first error of that. Calling Close again
  /// does nothing.
  Status Close();

 private:
  FileOutput(std::string path, const FileOptions& options, std::string what);

  Status Prepare(const FindEnd& find_end);
  Status CutTornRecord(const FindEnd& find_end, uint64_t size) CALLOUT_REQUIRES(mutex_);
  /// Must be called before taking `mutex_`, which another thread may have held during the fork.
  bool IsInChild() const;
  bool IsOpen() const CALLOUT_REQUIRES(mutex_);
  Status NotOpen() const;
  Status EndRecord(size_t begin, size_t records) CALLOUT_REQUIRES(mutex_);
  Status Write() CALLOUT_REQUIRES(mutex_);
  Status WriteHeader() CALLOUT_REQUIRES(mutex_);
  Status WriteLarge(std::span<const std::string_view> parts, uint64_t bytes, size_t records) CALLOUT_REQUIRES(mutex_);
  Status WriteRecords(std::span<const std::string_view> parts, const std::vector<size_t>& ends, bool are_counted)
      CALLOUT_REQUIRES(mutex_);
  Status CutTorn() CALLOUT_REQUIRES(mutex_);
  Status SyncIfDue(bool at_end) CALLOUT_REQUIRES(mutex_);
  Status Rotate() CALLOUT_REQUIRES(mutex_);
  std::string Cannot(const std::string& verb) const;
  std::string Lost(uint64_t records) CALLOUT_REQUIRES(mutex_);

  const std::string path_;
  const std::string absolute_path_;  ///< For rotation: the working directory may change.
  const FileOptions options_;
  const std::string what_;
  const int forks_;  ///< See OpenFiles.

  mutable Mutex mutex_;
  int fd_ CALLOUT_GUARDED_BY(mutex_) = -1;
  bool is_regular_ CALLOUT_GUARDED_BY(mutex_) = false;
  uint64_t bytes_ CALLOUT_GUARDED_BY(mutex_) = 0;  ///< Bytes of whole records in the file.
  uint64_t torn_ CALLOUT_GUARDED_BY(mutex_) = 0;   ///< Bytes after the last whole record, still to be cut off.
  uint64_t rotate_at_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t lost_ CALLOUT_GUARDED_BY(mutex_) = 0;      ///< The number of lost records since the file was opened.
  bool is_dirty_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< The file was written since the last fsync.
  int64_t synced_ns_ CALLOUT_GUARDED_BY(mutex_) = 0;
  std::string header_ CALLOUT_GUARDED_BY(mutex_);
  std::string pending_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<size_t> ends_ CALLOUT_GUARDED_BY(mutex_);  ///< The end of each record in `pending_`.
};

}  // namespace callout::internal
