// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/open_files.h"

#include <pthread.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace callout::internal {

OpenFiles& OpenFiles::Get() {
  static OpenFiles* const files = new OpenFiles;  // leaked: sinks may live until the process ends
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

// Lines such as "3: FLOCK  ADVISORY  WRITE 4242 fe:00:1337 0 EOF".
std::optional<pid_t> FindLockHolder(const struct stat& file) {
  char wanted[64];
  std::snprintf(wanted, sizeof(wanted), "%02x:%02x:%lu", major(file.st_dev), minor(file.st_dev),
                static_cast<unsigned long>(file.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream fields(line);
    std::string number, kind, mode, access, where;
    pid_t pid = 0;
    if (fields >> number >> kind >> mode >> access >> pid >> where && kind == "FLOCK" && where == wanted && pid > 0) {
      return pid;
    }
  }
  return std::nullopt;
}

}  // namespace callout::internal
