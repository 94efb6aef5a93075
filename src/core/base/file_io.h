// SPDX-License-Identifier: Apache-2.0
//
// File descriptors that their owner closes; reads of whole files; writes that continue until all bytes are written.
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
  /// Holds a descriptor. Takes ownership. A negative number is none.
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

/// Returns all bytes of a file. Errors: PermissionDenied, NotFound: "callout: cannot read WHAT 'PATH': why".
/// Thread-safe.
CALLOUT_EXPORT Result<std::string> ReadFile(const std::string& path, const std::string& what);

/// Writes the parts, and returns the number of bytes written; errno explains why some are missing. Blocks until the
/// reader of a pipe has made room, even if the descriptor is non-blocking (a program that shares standard output may
/// have set O_NONBLOCK). Signals do not end the write. `patience_ms` limits the wait for room in a non-blocking
/// descriptor, -1 for ever; after that errno is EAGAIN. Thread-safe.
size_t WriteAll(int descriptor, std::span<const std::string_view> parts, int patience_ms = -1);
size_t WriteAll(int descriptor, std::string_view bytes, int patience_ms = -1);

}  // namespace callout::internal
