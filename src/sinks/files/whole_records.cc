// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/whole_records.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace callout::internal {
namespace {

constexpr uint64_t kMaxTornLine = 16 << 20;

}  // namespace

Result<uint64_t> EndOfLines(int fd, uint64_t size) {
  constexpr uint64_t kChunk = 64 << 10;
  std::string chunk;
  for (uint64_t end = size; end > 0;) {
    const uint64_t begin = end - std::min(end, kChunk);
    chunk.resize(end - begin);
    const ssize_t n = pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(begin));
    if (n != static_cast<ssize_t>(chunk.size())) {
      return InternalError(n < 0 ? std::strerror(errno) : "it became shorter meanwhile");
    }
    const size_t newline = chunk.rfind('\n');
    if (newline != std::string::npos) return begin + newline + 1;
    end = begin;
  }
  // Not a record that was begun, but a file of another kind.
  if (size > kMaxTornLine) return InvalidArgument("it has " + std::to_string(size) + " bytes and no line");
  return uint64_t{0};
}

}  // namespace callout::internal
