// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "core/base/file_io.h"

namespace callout::internal {
namespace {

constexpr int kPatienceMs = 1000;  // how long to wait for a reader of a non-blocking standard error

std::atomic<int> g_level{static_cast<int>(LogLevel::kWarning)};
std::atomic<LogHandler> g_handler{nullptr};

std::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
  }
  return "LOG";
}

constexpr std::string_view kPrefix = "callout: ";

void WriteToStderr(LogLevel level, std::string_view message) {
  if (message.starts_with(kPrefix)) message.remove_prefix(kPrefix.size());  // errors begin with the prefix, too
  std::string line(kPrefix);
  line.append(Name(level)).append(": ").append(message).append("\n");
  (void)WriteAll(STDERR_FILENO, line, kPatienceMs);
}

thread_local LogLater* t_later = nullptr;

}  // namespace

LogLater::LogLater() : outer_(std::exchange(t_later, this)) {}

LogLater::~LogLater() {
  t_later = outer_;
  for (const Message& message : messages_) Log(message.level, message.text, message.source);
}

void SetLogLevel(int level) { g_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) { return static_cast<int>(level) >= g_level.load(std::memory_order_relaxed); }

void SetLogHandler(LogHandler handler) { g_handler.store(handler, std::memory_order_release); }

void Log(LogLevel level, std::string_view message, LogSource source) {
  if (!LogEnabled(level)) return;
  if (t_later != nullptr) {
    t_later->messages_.push_back({level, std::string(message), source});
    return;
  }
  const LogHandler handler = g_handler.load(std::memory_order_acquire);  // pairs with SetLogHandler's store
  if (handler == nullptr || !handler(level, message, source)) WriteToStderr(level, message);
}

}  // namespace callout::internal
