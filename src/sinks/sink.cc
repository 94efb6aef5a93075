// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace callout::internal {
namespace {

constexpr size_t kWriteAt = 256 << 10;  // a batch larger than this is written in parts

}  // namespace

Status WriteAll(int fd, const std::string& text, const std::string& what) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = write(fd, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      return InternalError("cannot write to " + what + ": " + std::strerror(errno));
    }
  }
  return OkStatus();
}

Status Sink::Call(const callout_call& /*call*/) {
  return FailedPrecondition("a sink takes taps; it cannot be called for a result");
}

Status TextSink::Deliver(const Record& record) {
  CALLOUT_RETURN_IF_ERROR(Format(record, lines_));
  return lines_.size() >= kWriteAt ? Flush() : OkStatus();
}

Status TextSink::Flush() {
  if (lines_.empty()) return OkStatus();
  const std::string lines = std::exchange(lines_, {});
  return Write(lines);
}

}  // namespace callout::internal
