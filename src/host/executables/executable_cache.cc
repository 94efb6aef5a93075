// SPDX-License-Identifier: Apache-2.0
#include "host/executables/executable_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/file_io.h"

namespace callout::internal {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

Status Failed(const std::string& what, const std::string& path) {
  return InternalError("callout: cannot " + what + " '" + path + "': " + std::strerror(errno));
}

}  // namespace

Result<ExecutableCache> ExecutableCache::Open(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);  // mkdir says what is wrong
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return Failed("make the cache", folder);
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) return Failed("open the cache", folder);
  if (!S_ISDIR(status.st_mode)) return InternalError("callout: the cache '" + folder + "' is no folder");
  if (status.st_uid != geteuid()) {
    return Status(StatusCode::kPermissionDenied,
                  "callout: the cache '" + folder + "' belongs to another user, who could choose what runs here");
  }
  if ((status.st_mode & kWritableByOthers) != 0) {
    return Status(StatusCode::kPermissionDenied, "callout: others may write to the cache '" + folder +
                                                     "', and so choose what runs here; chmod go-w it");
  }
  return ExecutableCache(folder);
}

std::optional<std::string> ExecutableCache::Read(const std::string& key) const {
  // Without waiting for a writer, if it is a pipe.
  const Descriptor file(open(PathOf(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) return std::nullopt;
  const bool is_ours = S_ISREG(status.st_mode) && status.st_uid == geteuid();
  if (!is_ours || (status.st_mode & kWritableByOthers) != 0) return std::nullopt;
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = read(file.number(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    at += static_cast<size_t>(got);
  }
  return bytes;
}

Status ExecutableCache::Write(const std::string& key, std::string_view bytes) const {
  static std::atomic<int> number{0};  // of this process's files
  const std::string unfinished =
      folder_ + "/" + key + "." + std::to_string(getpid()) + "." + std::to_string(number.fetch_add(1)) + ".unfinished";
  bool is_written = false;
  {
    (void)unlink(unfinished.c_str());  // of a process that had this one's number, and crashed
    const Descriptor file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file.number() < 0) return Failed("write to the cache", unfinished);
    is_written = WriteAll(file.number(), bytes) == bytes.size();
  }
  if (is_written && std::rename(unfinished.c_str(), PathOf(key).c_str()) == 0) return OkStatus();
  Status failed = Failed("write to the cache", unfinished);
  (void)unlink(unfinished.c_str());
  return failed;
}

void ExecutableCache::Remove(const std::string& key) const { (void)unlink(PathOf(key).c_str()); }

}  // namespace callout::internal
