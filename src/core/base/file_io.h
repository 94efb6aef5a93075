// SPDX-License-Identifier: Apache-2.0
//
// File descriptors, closed with their owner; a whole file as bytes; writing until all is written.
#pragma once

#include <unistd.h>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

class Descriptor {
 public:
  /// Takes ownership. Negative: none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// All bytes of a file. Errors: PermissionDenied, NotFound: "callout: cannot read WHAT 'PATH': why". Thread-safe.
CALLOUT_EXPORT Result<std::string> ReadFile(const std::string& path, const std::string& what);

/// How many bytes were written; errno says why not all. Blocks as long as whoever reads a pipe does not, also where the
/// descriptor does not block by itself (a program that shares standard output may have set O_NONBLOCK). Signals do not
/// end it. `patience_ms`: how long such a descriptor may have no room, -1 for ever; then errno is EAGAIN. Thread-safe.
size_t WriteAll(int descriptor, std::span<const std::string_view> parts, int patience_ms = -1);
size_t WriteAll(int descriptor, std::string_view bytes, int patience_ms = -1);

}  // namespace callout::internal
