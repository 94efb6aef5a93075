// SPDX-License-Identifier: Apache-2.0
#include "base/write_all.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace callout::internal {

size_t WriteAll(int descriptor, std::string_view bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = write(descriptor, bytes.data() + written, bytes.size() - written);
    if (n > 0) {
      written += static_cast<size_t>(n);
    } else if (n == 0) {
      errno = EIO;  // nobody documents when
      break;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd room = {.fd = descriptor, .events = POLLOUT, .revents = 0};
      if (poll(&room, 1, -1) < 0 && errno != EINTR) break;
    } else if (errno != EINTR) {
      break;
    }
  }
  return written;
}

}  // namespace callout::internal
