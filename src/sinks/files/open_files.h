// SPDX-License-Identifier: Apache-2.0
//
// The files that sinks of this process write, each by one of them.
// LockedFile is the descriptor of a file that this process alone writes.
#pragma once

#include <sys/stat.h>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

struct LockedFile {
  int fd = -1;
  bool is_regular = false;  ///< Others are not locked.
  uint64_t size = 0;
};

/// Opens `path` for appending, creates it if it is missing (`must_be_new`: or fails), and takes its lock. `cannot`
/// begins the errors: "cannot open". `shared`: with other processes that take it so. Errors: NotFound,
/// PermissionDenied; AlreadyExists with who has the lock; Cancelled if a signal came while a pipe was waiting for its
/// reader. Blocks until a pipe has one.
Result<LockedFile> OpenLocked(const std::string& path, const std::string& cannot, bool must_be_new = false,
                              bool shared = false);

/// Lets go of the lock, of which a process's child may have a copy, and closes the file. -1 is nothing.
void CloseLocked(int fd);

/// Puts a new, empty and locked file in the place of `path`, which becomes PATH.1, and PATH.1 PATH.2, ... At least one
/// and at most `keep` of those stay (< 0: all). There is no moment without a locked file at `path`, where the file
/// system can exchange two files.
Result<LockedFile> RotateFile(const std::string& path, int keep, const std::string& cannot);

/// Deletes PATH.1, PATH.2, ... up to the first that is missing.
void RemoveRotated(const std::string& path);

/// A forked child closes its copies of the descriptors: a lock lasts as long as the last of them, and the child may
/// outlive its parent. Thread-safe.
class OpenFiles {
 public:
  /// The process's files; never destroyed.
  static OpenFiles& Get();

  /// False if another descriptor of this process is there for the same file.
  bool TryAdd(int fd, const struct stat& file);
  void Remove(int fd);
  bool Has(const struct stat& file) const;
  /// How many forks are between this process and the first one: what was opened at another number is not open here.
  int forks() const { return forks_.load(std::memory_order_relaxed); }  // changed while a child has one thread

 private:
  struct Entry {
    int fd;
    dev_t device;
    ino_t inode;
  };

  OpenFiles();
  bool Holds(const struct stat& file) const CALLOUT_REQUIRES(mutex_);
  static void BeforeFork() CALLOUT_ATTRIBUTE(no_thread_safety_analysis);
  static void AfterForkInParent() CALLOUT_ATTRIBUTE(no_thread_safety_analysis);
  static void AfterForkInChild() CALLOUT_ATTRIBUTE(no_thread_safety_analysis);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ CALLOUT_GUARDED_BY(mutex_);
  std::atomic<int> forks_{0};
};

/// Whether a sink of this process writes the file at `path`. Thread-safe.
CALLOUT_EXPORT bool IsWrittenHere(const std::string& path);

/// The process that holds the flock on a file, where the system tells. Thread-safe.
std::optional<pid_t> FindLockHolder(const struct stat& file);

}  // namespace callout::internal
