// SPDX-License-Identifier: Apache-2.0
#include "sinks/text_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace callout::internal {
namespace {

constexpr size_t kWriteAt = 256 << 10;  // a batch larger than this is written in parts

struct Shared {
  Mutex mutex;
  std::map<int, std::weak_ptr<TextOutput>> by_fd CALLOUT_GUARDED_BY(mutex);
};

Shared& GetShared() {
  static Shared* const shared = new Shared;  // leaked: sinks may live until the process ends
  return *shared;
}

}  // namespace

std::shared_ptr<TextOutput> TextOutput::Of(int fd) {
  if (fd < 0) fd = STDOUT_FILENO;
  Shared& shared = GetShared();
  MutexLock lock(shared.mutex);
  std::weak_ptr<TextOutput>& entry = shared.by_fd[fd];
  if (auto output = entry.lock()) return output;
  auto output = std::make_shared<TextOutput>(
      fd, fd == STDOUT_FILENO ? "standard output" : "file descriptor " + std::to_string(fd));
  entry = output;
  return output;
}

Status TextOutput::Add(const std::function<Status(std::string& lines)>& append) {
  MutexLock lock(mutex_);
  CALLOUT_RETURN_IF_ERROR(append(lines_));
  return lines_.size() >= kWriteAt ? Write() : OkStatus();
}

Status TextOutput::Flush() {
  MutexLock lock(mutex_);
  return Write();
}

Status TextOutput::Write() {
  const std::string lines = std::exchange(lines_, {});
  for (std::string_view rest = lines; !rest.empty();) {
    const ssize_t n = write(fd_, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      return InternalError("cannot write to " + what_ + ": " + std::strerror(errno));
    }
  }
  return OkStatus();
}

}  // namespace callout::internal
