// SPDX-License-Identifier: Apache-2.0
//
// The registry of the files that sinks of this process write, each by one sink, and locked files (LockedFile), which
// this process alone writes.
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
  bool is_regular = false;  ///< Only regular files are locked.
  uint64_t size = 0;
};

/// Opens `path` for appending, creates it if it is missing, and locks it. `must_be_new`: fails if the file exists.
/// `cannot` begins the errors: "cannot open". `shared`: other processes may hold the lock in the same mode. Errors:
/// NotFound; PermissionDenied; AlreadyExists, with the owner of the lock; Cancelled if a signal came while a pipe was
/// waiting for its reader. Blocks until a pipe has a reader.
Result<LockedFile> OpenLocked(const std::string& path, const std::string& cannot, bool must_be_new = false,
                              bool shared = false);

/// Releases the lock, even if a child of the process has a copy of the descriptor, and closes the file. -1 does
/// nothing.
void CloseLocked(int fd);

/// Replaces `path` by a new, empty and locked file. The old file becomes PATH.1, PATH.1 becomes PATH.2, and so on; at
/// least one and at most `keep` of them remain (< 0: all). Where the file system can exchange two files, there is a
/// locked file at `path` at all times.
Result<LockedFile> RotateFile(const std::string& path, int keep, const std::string& cannot);

/// Deletes PATH.1, PATH.2, ... up to the first one that is missing.
void RemoveRotated(const std::string& path);

/// The descriptors of all files that sinks of this process write. A forked child closes its copies: a lock lasts as
/// long as its last descriptor, and the child may outlive its parent. Thread-safe.
class OpenFiles {
 public:
  /// Returns the registry of the process, which is never destroyed.
  static OpenFiles& Get();

  /// Returns false if this process has another descriptor for the same file.
  bool TryAdd(int fd, const struct stat& file);
  void Remove(int fd);
  bool Has(const struct stat& file) const;
  /// Returns the number of forks between the first process and this one. A file that was opened at another number is
  /// not open in this process. Relaxed: the number changes only in a new child, which has one thread.
  int forks() const { return forks_.load(std::memory_order_relaxed); }

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

/// Returns whether a sink of this process writes the file at `path`. Thread-safe.
CALLOUT_EXPORT bool IsWrittenHere(const std::string& path);

}  // namespace callout::internal
