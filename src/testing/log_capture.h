// SPDX-License-Identifier: Apache-2.0
//
// Collects what the core logs for as long as it lives.
#pragma once

#include <string>
#include <vector>

namespace callout::internal {

/// One at a time in a process. Everything else that logs must have ended before it does.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// "40 text": the level's number and the message. Thread-safe.
  std::vector<std::string> messages() const;
  /// Blocks until a message with `part` in it was logged, and returns it. Thread-safe.
  std::string WaitFor(const std::string& part) const;
};

}  // namespace callout::internal
