// SPDX-License-Identifier: Apache-2.0
//
// Whole records on their way to a file that nobody else writes. What is in the file are whole records, whatever ends
// the process or fails: a record that is not written whole is cut off again.
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

/// The end of the last of them in the `size` bytes of a file that is open for reading. Errors: Internal, with errno's
/// text; InvalidArgument for a file of another kind.
using FindEnd = std::function<Result<uint64_t>(int fd, uint64_t size)>;

/// Records are lines.
Result<uint64_t> EndOfLines(int fd, uint64_t size);

/// Records have a length and checksums, see sinks/tf_record.h.
Result<uint64_t> EndOfTfRecords(int fd, uint64_t size);

struct FileOptions {
  static constexpr double kNever = -1;
  static constexpr int kAll = -1;

  /// Keep what the file holds, but for a record at its end that was not written whole, and go on behind it.
  bool append = false;
  /// Seconds between two fsyncs, which are done at the end of a batch; 0: at the end of each; kNever.
  double fsync_seconds = kNever;
  /// A file that has a record, and would be larger with the next one, becomes PATH.1, and PATH.1 becomes PATH.2, ...
  /// 0: never. Only for regular files.
  uint64_t rotate_bytes = 0;
  /// So many of PATH.1, PATH.2, ..., 1 at least; the oldest is deleted. kAll.
  int keep = kAll;
};

/// Thread-safe. Nothing is written, nor unlocked, in a forked child.
class FileOutput {
 public:
  /// Creates the file at `path` if it is missing, and locks it (flock) against other processes and sinks. `what` is
  /// what is written, for errors. Errors: NotFound, PermissionDenied; AlreadyExists with who writes the file;
  /// InvalidArgument for options that it cannot have.
  static Result<std::unique_ptr<FileOutput>> Open(const std::string& path, const FileOptions& options,
                                                  const std::string& what, const FindEnd& find_end = &EndOfLines);
  /// Logs what Close returns.
  ~FileOutput();
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;

  /// The path as it was given.
  const std::string& path() const { return path_; }
  /// Whether the file has no record, and no header either.
  bool empty() const;
  /// What stands in front of the first record of this file, if it is empty, and of each that follows.
  void SetHeader(std::string header);

  /// `append(std::string&)` appends a whole record, or returns why it does not. Written at once when there is much. It
  /// counts as so many `records` where it is lost. Errors: those of Flush; FailedPrecondition after Close.
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

  /// A whole record, or so many, from several places. Much is written at once, and not copied. Errors: as Add.
  Status AddParts(std::span<const std::string_view> parts, size_t records);

  /// Writes what was added, and the header. Error: Internal, with the path, errno's text and the number of records that
  /// are lost: they are not tried again, but those that follow are.
  Status Flush();

  /// Writes what was added, and lets go of the file. The first error of that; again is no error.
  Status Close();

 private:
  FileOutput(std::string path, const FileOptions& options, std::string what);

  Status Prepare(const FindEnd& find_end);
  Status CutTornRecord(const FindEnd& find_end, uint64_t size) CALLOUT_REQUIRES(mutex_);
  /// Asked before `mutex_` is taken, which another thread may have held when the process forked.
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
  uint64_t bytes_ CALLOUT_GUARDED_BY(mutex_) = 0;  ///< In the file.
  uint64_t torn_ CALLOUT_GUARDED_BY(mutex_) = 0;   ///< Behind them, still to be cut off.
  uint64_t rotate_at_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t lost_ CALLOUT_GUARDED_BY(mutex_) = 0;      ///< Records, since it was opened.
  bool is_dirty_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< Since the last fsync.
  int64_t synced_ns_ CALLOUT_GUARDED_BY(mutex_) = 0;
  std::string header_ CALLOUT_GUARDED_BY(mutex_);
  std::string pending_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<size_t> ends_ CALLOUT_GUARDED_BY(mutex_);  ///< Of each of the records in `pending_`.
};

}  // namespace callout::internal
