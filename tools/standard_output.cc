// SPDX-License-Identifier: Apache-2.0
#include "standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace callout::tools {

ReservedOutput::ReservedOutput(bool reserves) {
  if (!reserves) return;
  std::fflush(stdout);
  kept_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (kept_ >= 0) (void)dup2(STDERR_FILENO, STDOUT_FILENO);
}

ReservedOutput::~ReservedOutput() { Release(); }

Status ReservedOutput::Write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = write(kept_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return InternalError(std::string("callout: cannot write to standard output: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return OkStatus();
}

void ReservedOutput::Release() {
  if (kept_ < 0) return;
  std::fflush(stdout);
  (void)dup2(kept_, STDOUT_FILENO);
  (void)close(std::exchange(kept_, -1));
}

}  // namespace callout::tools
