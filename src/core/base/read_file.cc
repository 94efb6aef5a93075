// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace callout::internal {

Result<std::string> ReadFile(const std::string& path, const std::string& what) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  // Not by iterators of its buffer: those throw what goes wrong, such as reading a directory.
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    bytes.append(chunk, 0, static_cast<size_t>(file.gcount()));
  }
  if (file.is_open() && !file.bad()) return bytes;
  const StatusCode code = errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
  return Status(code, "callout: cannot read " + what + " '" + path + "': " + std::strerror(errno));
}

}  // namespace callout::internal
