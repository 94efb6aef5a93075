// SPDX-License-Identifier: Apache-2.0
//
// Everything that Linux and macOS do in different ways: names and numbers of threads, files without a name, loaded
// libraries, and locks of files.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// The prefix of the file name of a Callout core.
#if defined(__APPLE__)
inline constexpr std::string_view kCoreFile = "libcallout.";
#else
inline constexpr std::string_view kCoreFile = "libcallout.so";
#endif

/// Names the calling thread for debuggers. A name of more than 15 characters has no effect on Linux. Thread-safe.
CALLOUT_EXPORT void NameThisThread(const char* name);

/// Returns the system's number of the calling thread. Thread-safe, also in a signal handler.
CALLOUT_EXPORT int64_t ThreadNumber();

/// Makes the calling thread's timed waits end within a microsecond of their time instead of within 50, where the system
/// has a switch for it. Thread-safe.
CALLOUT_EXPORT void WakeOnTime();

/// An open file that no other process can find by a name.
struct PrivateFile {
  int descriptor = -1;  ///< Negative if there is no file; errno then has the reason.
  std::string path;     ///< The path by which this process can open the file again, until HidePath.
};

/// Creates a private file, in memory where the system has such files. `name` is for debuggers. Thread-safe.
CALLOUT_EXPORT PrivateFile CreatePrivateFile(const std::string& name, bool is_executable);

/// Removes the file's path, if the file is on a disk. Thread-safe.
CALLOUT_EXPORT void HidePath(const PrivateFile& file);

/// Calls `visit` with the path of each library of the process, in the order of their loading. Thread-safe.
CALLOUT_EXPORT void ForEachLibrary(const std::function<void(std::string_view path)>& visit);

/// Exchanges two files atomically. False: errno has the reason. Thread-safe.
CALLOUT_EXPORT bool ExchangeFiles(const char* one, const char* other);

/// Blocks until the file's bytes are on the disk. False: errno has the reason. Thread-safe.
CALLOUT_EXPORT bool SyncBytes(int descriptor);

/// Returns the process that holds a lock (flock) of the file, if the system reports it. Thread-safe.
CALLOUT_EXPORT std::optional<pid_t> FindLockHolder(const struct stat& file);

/// Returns whether this aarch64 processor has the instructions for CRC-32C. Thread-safe.
bool ProcessorHasCrc32();

}  // namespace callout::internal
