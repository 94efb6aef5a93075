// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/open_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/base/platform.h"

namespace callout::internal {
namespace {

constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND;
constexpr mode_t kMode = 0644;

Status SystemError(const std::string& cannot) {
  if (errno == EINTR) return {StatusCode::kCancelled, cannot + ": " + std::strerror(errno)};
  const bool permission = errno == EACCES || errno == EPERM || errno == EROFS;
  return {permission ? StatusCode::kPermissionDenied : StatusCode::kNotFound, cannot + ": " + std::strerror(errno)};
}

Status TakeLock(int fd, const struct stat& file, const std::string& cannot, bool shared) {
  if (!OpenFiles::Get().TryAdd(fd, file)) {
    return AlreadyExists(cannot + ": another sink of this process is writing it; close that one first");
  }
  int error = 0;
  do {
    error = flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) return OkStatus();
  if (error != EWOULDBLOCK) {
    Log(LogLevel::kWarning,
        cannot + " for this process alone: the file system has no locks (" + std::strerror(error) + ")");
    return OkStatus();
  }
  OpenFiles::Get().Remove(fd);
  const std::optional<pid_t> holder = FindLockHolder(file);
  return AlreadyExists(cannot + ": " + (holder ? Cat("process ", *holder) : "another process") + " is writing it");
}

// Opens the file as open(2) does, and creates the folders of its path.
int OpenInFolder(const std::string& path, int flags) {
  if (const int fd = open(path.c_str(), flags, kMode); fd >= 0 || errno != ENOENT) return fd;
  std::error_code error;  // The second open reports the error.
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  return open(path.c_str(), flags, kMode);
}

// Returns false if `path` no longer is the file of `fd`: the previous owner of the lock has replaced it.
bool IsAt(const std::string& path, const struct stat& file) {
  struct stat now;
  return stat(path.c_str(), &now) == 0 && now.st_dev == file.st_dev && now.st_ino == file.st_ino;
}

std::string Rotated(const std::string& path, int number) { return Cat(path, ".", number); }

bool Exists(const std::string& path) { return faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

// Renames PATH.1 to PATH.2, and so on.
bool ShiftRotated(const std::string& path, int keep) {
  int last = 0;
  while (Exists(Rotated(path, last + 1))) ++last;
  for (; keep >= 0 && last >= keep && last > 0; --last) {
    if (unlink(Rotated(path, last).c_str()) != 0) return false;
  }
  for (; last > 0; --last) {
    if (std::rename(Rotated(path, last).c_str(), Rotated(path, last + 1).c_str()) != 0) return false;
  }
  return true;
}

// Exchanges `path` and `other`. On a file system that cannot, deletes `other` and moves `path` to its name.
bool Exchange(const std::string& other, const std::string& path) {
  if (ExchangeFiles(other.c_str(), path.c_str())) return true;
  if (errno == ENOENT) return std::rename(other.c_str(), path.c_str()) == 0;  // Somebody deleted `path`.
  return false;
}

}  // namespace

Result<LockedFile> OpenLocked(const std::string& path, const std::string& cannot, bool must_be_new, bool shared) {
  while (true) {
    const int fd = OpenInFolder(path, kFlags | (must_be_new ? O_EXCL : 0));
    if (fd < 0) return SystemError(cannot);
    struct stat file;
    if (fstat(fd, &file) != 0) {
      Status status = SystemError(cannot);
      close(fd);
      return status;
    }
    if (!S_ISREG(file.st_mode)) return LockedFile{fd, false, 0};
    if (Status status = TakeLock(fd, file, cannot, shared); !status.ok()) {
      close(fd);
      return status;
    }
    if (IsAt(path, file) && fstat(fd, &file) == 0) return LockedFile{fd, true, static_cast<uint64_t>(file.st_size)};
    CloseLocked(fd);
  }
}

void CloseLocked(int fd) {
  if (fd < 0) return;
  OpenFiles::Get().Remove(fd);
  flock(fd, LOCK_UN);
  close(fd);
}

Result<LockedFile> RotateFile(const std::string& path, int keep, const std::string& cannot) {
  if (!ShiftRotated(path, keep)) return SystemError(cannot);
  const std::string first = Rotated(path, 1);
  CALLOUT_ASSIGN_OR_RETURN(LockedFile file, OpenLocked(first, cannot, /*must_be_new=*/true));
  if (Exchange(first, path)) return file;
  CloseLocked(file.fd);
  if (std::rename(path.c_str(), first.c_str()) != 0) return SystemError(cannot);
  return OpenLocked(path, cannot, /*must_be_new=*/true);
}

void RemoveRotated(const std::string& path) {
  for (int number = 1; unlink(Rotated(path, number).c_str()) == 0; ++number) {
  }
}

OpenFiles& OpenFiles::Get() {
  static OpenFiles* const files = new OpenFiles;  // Leaked: sinks may live until the process ends.
  return *files;
}

OpenFiles::OpenFiles() { pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild); }

bool OpenFiles::Holds(const struct stat& file) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.device == file.st_dev && entry.inode == file.st_ino; });
}

bool OpenFiles::TryAdd(int fd, const struct stat& file) {
  MutexLock lock(mutex_);
  if (Holds(file)) return false;
  entries_.push_back({fd, file.st_dev, file.st_ino});
  return true;
}

void OpenFiles::Remove(int fd) {
  MutexLock lock(mutex_);
  std::erase_if(entries_, [fd](const Entry& entry) { return entry.fd == fd; });
}

bool OpenFiles::Has(const struct stat& file) const {
  MutexLock lock(mutex_);
  return Holds(file);
}

void OpenFiles::BeforeFork() { Get().mutex_.lock(); }
void OpenFiles::AfterForkInParent() { Get().mutex_.unlock(); }
void OpenFiles::AfterForkInChild() {
  OpenFiles& files = Get();
  for (const Entry& entry : files.entries_) close(entry.fd);
  files.entries_.clear();
  files.forks_.fetch_add(1, std::memory_order_relaxed);
  files.mutex_.unlock();
}

bool IsWrittenHere(const std::string& path) {
  struct stat file;
  return stat(path.c_str(), &file) == 0 && OpenFiles::Get().Has(file);
}

}  // namespace callout::internal
