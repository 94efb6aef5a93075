// SPDX-License-Identifier: Apache-2.0
#include "core/base/file_io.h"

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace callout::internal {

Result<std::string> ReadFile(const std::string& path, const std::string& what) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  // Iterators of the stream's buffer would throw errors, such as that of reading a directory; read() only sets a flag.
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    bytes.append(chunk, 0, static_cast<size_t>(file.gcount()));
  }
  if (file.is_open() && !file.bad()) return bytes;
  const StatusCode code = errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
  return Status(code, "callout: cannot read " + what + " '" + path + "': " + std::strerror(errno));
}

size_t WriteAll(int descriptor, std::span<const std::string_view> parts, int patience_ms) {
  constexpr size_t kMostAtOnce = 64;  // IOV_MAX is 1024
  size_t written = 0, within = 0;     // bytes of all parts, and of the first remaining part
  while (true) {
    for (; !parts.empty() && within >= parts[0].size(); parts = parts.subspan(1)) within -= parts[0].size();
    if (parts.empty()) return written;
    iovec places[kMostAtOnce];
    const size_t count = std::min(parts.size(), kMostAtOnce);
    for (size_t i = 0; i < count; ++i) places[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
    places[0] = {static_cast<char*>(places[0].iov_base) + within, places[0].iov_len - within};
    const ssize_t n = writev(descriptor, places, static_cast<int>(count));
    if (n > 0) {
      written += static_cast<size_t>(n);
      within += static_cast<size_t>(n);
    } else if (n == 0) {
      errno = EIO;  // no manual describes when writev writes 0 bytes
      return written;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd room = {.fd = descriptor, .events = POLLOUT, .revents = 0};
      const int found = poll(&room, 1, patience_ms);
      if (found == 0) errno = EAGAIN;
      if (found == 0 || (found < 0 && errno != EINTR)) return written;
    } else if (errno != EINTR) {
      return written;
    }
  }
}

size_t WriteAll(int descriptor, std::string_view bytes, int patience_ms) {
  const std::string_view parts[] = {bytes};
  return WriteAll(descriptor, parts, patience_ms);
}

}  // namespace callout::internal
