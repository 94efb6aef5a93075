// SPDX-License-Identifier: Apache-2.0
#include "testing/log_capture.h"

#include <condition_variable>

#include "core/base/log.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {
namespace {

struct Captured {
  Mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::string> messages CALLOUT_GUARDED_BY(mutex);
};

Captured& GetCaptured() {
  static Captured* const captured = new Captured;  // Leaked: a handler may run until the end.
  return *captured;
}

bool Capture(LogLevel level, std::string_view message, LogSource) {
  Captured& captured = GetCaptured();
  MutexLock lock(captured.mutex);
  captured.messages.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(message));
  captured.changed.notify_all();
  return true;
}

}  // namespace

LogCapture::LogCapture() {
  Captured& captured = GetCaptured();
  MutexLock lock(captured.mutex);
  captured.messages.clear();
  SetLogHandler(&Capture);
}

LogCapture::~LogCapture() { SetLogHandler(nullptr); }

std::vector<std::string> LogCapture::messages() const {
  Captured& captured = GetCaptured();
  MutexLock lock(captured.mutex);
  return captured.messages;
}

std::string LogCapture::WaitFor(const std::string& part) const {
  Captured& captured = GetCaptured();
  MutexLock lock(captured.mutex);
  for (;;) {
    for (const std::string& message : captured.messages) {
      if (message.find(part) != std::string::npos) return message;
    }
    captured.changed.wait(captured.mutex);
  }
}

}  // namespace callout::internal
