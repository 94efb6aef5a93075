// SPDX-License-Identifier: Apache-2.0
//
// Messages of the core. They go to a handler (Python's loggers, while Python can take messages) or else to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"

namespace callout::internal {

/// The numbers of Python's logging levels.
enum class LogLevel : int { kDebug = 10, kInfo = 20, kWarning = 30, kError = 40 };

/// The logger of a message: the core's, or another one that the handler knows by its number.
enum class LogSource : int { kCore = 0 };

/// Takes a message. Returns false if the message should be written to stderr. Called on any thread. Must not throw.
using LogHandler = bool (*)(LogLevel level, std::string_view message, LogSource source);

/// Drops messages below `level`. Thread-safe.
CALLOUT_EXPORT void SetLogLevel(int level);
CALLOUT_EXPORT bool LogEnabled(LogLevel level);

/// Sets the handler; null restores stderr. Thread-safe.
CALLOUT_EXPORT void SetLogHandler(LogHandler handler);

/// Holds back this thread's messages until the end of the scope, for a thread that gives up the GIL, without which
/// messages do not reach Python's logging. May be nested.
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

/// Logs a message. A line on stderr is written by one system call if the system takes all of it at once. Thread-safe.
/// GIL not needed.
CALLOUT_EXPORT void Log(LogLevel level, std::string_view message, LogSource source = LogSource::kCore);

}  // namespace callout::internal
