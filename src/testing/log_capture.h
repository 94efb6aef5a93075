// SPDX-License-Identifier: Apache-2.0
//
// Collects the core's log messages as long as the object lives.
#pragma once

#include <string>
#include <vector>

namespace callout::internal {

/// Only one may exist in a process. All other threads that log must have ended before it is destroyed.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// Returns messages as "40 text": the level's number and the text. Thread-safe.
  std::vector<std::string> messages() const;
  /// Blocks until a message that contains `part` was logged, and returns it. Thread-safe.
  std::string WaitFor(const std::string& part) const;
};

}  // namespace callout::internal
