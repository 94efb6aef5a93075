// SPDX-License-Identifier: Apache-2.0
//
// Messages of the core. They go to a handler (Python's loggers, when they can take them) or else to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

/// The numbers of Python's logging levels.
enum class LogLevel : int { kDebug = 10, kInfo = 20, kWarning = 30, kError = 40 };

/// Whose logger a message is for: the core's, or another of those that the handler knows by numbers.
enum class LogSource : int { kCore = 0 };

/// Takes a message, or returns false to have it written to stderr. Called on any thread. Must not throw.
using LogHandler = bool (*)(LogLevel level, std::string_view message, LogSource source);

/// Drops messages below `level`. Thread-safe.
CALLOUT_EXPORT void SetLogLevel(int level);
CALLOUT_EXPORT bool LogEnabled(LogLevel level);

/// Thread-safe. Null restores stderr.
CALLOUT_EXPORT void SetLogHandler(LogHandler handler);

/// Keeps what this thread logs until the end of its scope: for who gives up the GIL, without which messages do not
/// reach Python's logging. May be nested.
class CALLOUT_EXPORT LogLater {
 public:
  LogLater();
  ~LogLater();
  LogLater(const LogLater&) = delete;
  LogLater& operator=(const LogLater&) = delete;

 private:
  friend void Log(LogLevel level, std::string_view message, LogSource source);
  struct Message {
    LogLevel level;
    std::string text;
    LogSource source;
  };
  std::vector<Message> messages_;
  LogLater* const outer_;
};

/// Thread-safe. GIL not needed. Writes a line with one call where the system takes all of it at once.
CALLOUT_EXPORT void Log(LogLevel level, std::string_view message, LogSource source = LogSource::kCore);

}  // namespace callout::internal
