// SPDX-License-Identifier: Apache-2.0
//
// A descriptor of a file that this process alone writes.
#pragma once

#include <cstdint>
#include <string>

#include "callout/status.h"

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

}  // namespace callout::internal
