// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/file_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/cat.h"
#include "core/base/file_io.h"
#include "core/base/log.h"
#include "core/base/platform.h"
#include "core/base/ticks.h"
#include "sinks/files/open_files.h"

namespace callout::internal {
namespace {

constexpr uint64_t kMaxTornLine = 16 << 20;

}  // namespace

Result<uint64_t> EndOfLines(int fd, uint64_t size) {
  constexpr uint64_t kChunk = 64 << 10;
  std::string chunk;
  for (uint64_t end = size; end > 0;) {
    const uint64_t begin = end - std::min(end, kChunk);
    chunk.resize(end - begin);
    const ssize_t n = pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(begin));
    if (n != static_cast<ssize_t>(chunk.size())) {
      return InternalError(n < 0 ? std::strerror(errno) : "it became shorter meanwhile");
    }
    const size_t newline = chunk.rfind('\n');
    if (newline != std::string::npos) return begin + newline + 1;
    end = begin;
  }
  // A long file without a line is of another kind; a short one holds a torn record.
  if (size > kMaxTornLine) return InvalidArgument(Cat("it has ", size, " bytes and no line"));
  return uint64_t{0};
}

namespace {

constexpr size_t kWriteAt = 256 << 10;    // A larger batch is written in parts.
constexpr size_t kKeepBytes = 4U << 20U;  // The most memory that is kept between batches.

std::string Absolute(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  return absolute.empty() ? path : absolute.string();
}

uint64_t BytesOf(std::span<const std::string_view> parts) {
  uint64_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

Result<std::unique_ptr<FileOutput>> FileOutput::Open(const std::string& path, const FileOptions& options,
                                                     const std::string& what, const FindEnd& find_end) {
  std::unique_ptr<FileOutput> output(new FileOutput(path, options, what));
  CALLOUT_RETURN_IF_ERROR(output->Prepare(find_end));
  return output;
}

FileOutput::FileOutput(std::string path, const FileOptions& options, std::string what)
    : path_(std::move(path)),
      absolute_path_(Absolute(path_)),
      options_(options),
      what_(std::move(what)),
      forks_(OpenFiles::Get().forks()),
      rotate_at_(options.rotate_bytes) {}

FileOutput::~FileOutput() {
  const Status status = Close();
  if (!status.ok()) Log(LogLevel::kError, status.message());
}

std::string FileOutput::Cannot(const std::string& verb) const { return "cannot " + verb + " '" + path_ + "'"; }

std::string FileOutput::Lost(uint64_t records) {
  lost_ += records;
  const std::string text = Cat("; ", records, " records are lost");
  return lost_ == records ? text : Cat(text, ", ", lost_, " in all");
}

Status FileOutput::Prepare(const FindEnd& find_end) {
  const std::string cannot = Cannot("open") + " for " + what_;
  CALLOUT_ASSIGN_OR_RETURN(const LockedFile file, OpenLocked(path_, cannot));
  MutexLock lock(mutex_);
  fd_ = file.fd;
  is_regular_ = file.is_regular;
  bytes_ = file.size;
  synced_ns_ = SteadyNanoseconds();
  if (!is_regular_) {
    if (options_.rotate_bytes == 0) return OkStatus();
    return InvalidArgument(cannot + ": only regular files are rotated");
  }
  if (options_.append) return bytes_ == 0 ? OkStatus() : CutTornRecord(find_end, bytes_);
  if (options_.rotate_bytes > 0) RemoveRotated(absolute_path_);
  if (bytes_ > 0 && ftruncate(fd_, 0) != 0) return InternalError(cannot + ": " + std::strerror(errno));
  bytes_ = 0;
  return OkStatus();
}

Status FileOutput::CutTornRecord(const FindEnd& find_end, uint64_t size) {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {StatusCode::kPermissionDenied, Cannot("read the end of") + ": " + std::strerror(errno)};
  Result<uint64_t> end = find_end(fd, size);
  close(fd);
  if (!end.ok()) return end.status().WithMessage(Cannot("append to") + ": " + std::string(end.status().message()));
  bytes_ = *end;
  torn_ = size - *end;
  if (torn_ == 0) return OkStatus();
  Log(LogLevel::kWarning,
      Cat("'", path_, "' ends in a record that was not written whole: its ", torn_, " bytes are cut off"));
  return CutTorn();
}

bool FileOutput::empty() const {
  MutexLock lock(mutex_);
  return bytes_ == 0;
}

void FileOutput::SetHeader(std::string header) {
  MutexLock lock(mutex_);
  header_ = std::move(header);
}

bool FileOutput::IsInChild() const { return forks_ != OpenFiles::Get().forks(); }

bool FileOutput::IsOpen() const { return fd_ >= 0 && !IsInChild(); }

Status FileOutput::NotOpen() const {
  return FailedPrecondition(Cannot("write to") + (IsInChild() ? " in a forked child" : ": it is closed"));
}

Status FileOutput::EndRecord(size_t begin, size_t records) {
  const uint64_t header_bytes = bytes_ == 0 ? header_.size() : 0;
  const bool has_record = begin > 0 || bytes_ > header_.size();
  if (rotate_at_ > 0 && has_record && bytes_ + header_bytes + pending_.size() > rotate_at_) {
    const std::string record = pending_.substr(begin);
    pending_.resize(begin);
    Status written = Write();
    const Status rotated = Rotate();
    pending_ += record;
    ends_.insert(ends_.end(), records, pending_.size());
    return written.ok() ? rotated : written;
  }
  ends_.insert(ends_.end(), records, pending_.size());
  return pending_.size() >= kWriteAt ? Write() : OkStatus();
}

Status FileOutput::AddParts(std::span<const std::string_view> parts, size_t records) {
  const uint64_t bytes = BytesOf(parts);
  if (bytes < kWriteAt) {
    const auto append = [parts](std::string& pending) {
      for (const std::string_view part : parts) pending.append(part);
      return OkStatus();
    };
    return Add(append, records);
  }
  if (IsInChild()) return NotOpen();
  MutexLock lock(mutex_);
  if (!IsOpen()) return NotOpen();
  return WriteLarge(parts, bytes, records);
}

Status FileOutput::WriteLarge(std::span<const std::string_view> parts, uint64_t bytes, size_t records) {
  Status before = Write();
  if (rotate_at_ > 0 && bytes_ > header_.size() && bytes_ + bytes > rotate_at_) {
    const Status rotated = Rotate();
    if (before.ok()) before = rotated;
  }
  Status status = CutTorn();
  if (status.ok() && bytes_ == 0 && !header_.empty()) status = WriteHeader();
  if (!status.ok()) return InternalError(std::string(status.message()) + Lost(records));
  status = WriteRecords(parts, std::vector<size_t>(records, bytes), /*are_counted=*/true);
  return before.ok() ? std::move(status) : std::move(before);
}

Status FileOutput::WriteHeader() {
  const std::string_view header[] = {header_};
  return WriteRecords(header, {header_.size()}, /*are_counted=*/false);
}

Status FileOutput::Flush() {
  if (IsInChild()) return OkStatus();
  MutexLock lock(mutex_);
  if (!IsOpen()) return OkStatus();
  CALLOUT_RETURN_IF_ERROR(Write());
  return SyncIfDue(/*at_end=*/false);
}

Status FileOutput::Write() {
  if (pending_.empty() && (bytes_ > 0 || header_.empty())) return OkStatus();
  Status status = CutTorn();
  if (status.ok() && bytes_ == 0) status = WriteHeader();
  if (status.ok()) {
    const std::string_view pending[] = {pending_};
    status = WriteRecords(pending, ends_, /*are_counted=*/true);
  } else if (!ends_.empty()) {
    status = InternalError(std::string(status.message()) + Lost(ends_.size()));
  }
  pending_.clear();
  ends_.clear();
  if (pending_.capacity() > kKeepBytes) pending_.shrink_to_fit();
  return status;
}

Status FileOutput::WriteRecords(std::span<const std::string_view> parts, const std::vector<size_t>& ends,
                                bool are_counted) {
  const uint64_t bytes = BytesOf(parts);
  const uint64_t written = WriteAll(fd_, parts);
  is_dirty_ |= written > 0;
  if (written == bytes) {
    bytes_ += written;
    return OkStatus();
  }
  const std::string why = std::strerror(errno);
  const auto lost = std::upper_bound(ends.begin(), ends.end(), written);
  const size_t whole = lost == ends.begin() ? 0 : *(lost - 1);
  bytes_ += whole;
  torn_ = is_regular_ ? written - whole : 0;
  (void)CutTorn();  // If this fails, the next write tries again.
  std::string message = Cannot("write to") + ": " + why;
  if (are_counted) message += Lost(static_cast<uint64_t>(ends.end() - lost));
  return InternalError(std::move(message));
}

// Cuts relative to the current end of the file, because another process may have truncated it.
Status FileOutput::CutTorn() {
  if (torn_ == 0) return OkStatus();
  struct stat now;
  if (fstat(fd_, &now) != 0) return InternalError(Cannot("look at") + ": " + std::strerror(errno));
  const auto size = static_cast<uint64_t>(now.st_size);
  if (size >= torn_ && ftruncate(fd_, static_cast<off_t>(size - torn_)) != 0) {
    return InternalError(Cannot("cut a torn record off") + ": " + std::strerror(errno));
  }
  torn_ = 0;
  return OkStatus();
}

Status FileOutput::SyncIfDue(bool at_end) {
  if (!is_dirty_ || options_.fsync_seconds < 0 || !is_regular_) return OkStatus();
  const int64_t now = SteadyNanoseconds();
  if (!at_end && static_cast<double>(now - synced_ns_) * 1e-9 < options_.fsync_seconds) return OkStatus();
  synced_ns_ = now;
  is_dirty_ = false;
  if (SyncBytes(fd_)) return OkStatus();
  return InternalError(Cannot("sync") + ": " + std::strerror(errno));
}

Status FileOutput::Rotate() {
  Status status = SyncIfDue(/*at_end=*/true);
  Result<LockedFile> next = RotateFile(absolute_path_, options_.keep, Cannot("rotate"));
  if (!next.ok()) {
    rotate_at_ = bytes_ + options_.rotate_bytes;  // Continues in the same file.
    return next.status();
  }
  CloseLocked(fd_);
  fd_ = next->fd;
  bytes_ = 0;
  torn_ = 0;
  rotate_at_ = options_.rotate_bytes;
  return status;
}

Status FileOutput::Close() {
  if (IsInChild()) return OkStatus();
  MutexLock lock(mutex_);
  if (!IsOpen()) return OkStatus();
  Status written = Write();
  Status synced = SyncIfDue(/*at_end=*/true);
  CloseLocked(std::exchange(fd_, -1));
  return written.ok() ? std::move(synced) : std::move(written);
}

}  // namespace callout::internal
