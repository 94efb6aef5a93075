// SPDX-License-Identifier: Apache-2.0
//
// Crash reports and exit. The signal handler may only call async-signal-safe functions: it reads atomics and writes to
// a descriptor.
#include "host/services/host_services.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>

#include "callout/pjrt/crash_report.h"
#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/base/process_state.h"
#include "core/base/ticks.h"
#include "core/callbacks/in_flight.h"
#include "core/delivery/delivery.h"
#include "core/delivery/watchdog.h"

namespace callout::pjrt {
namespace {

struct Crash {
  int signal;
  const char* name;
  struct sigaction before;  // the action before ReportCrashes
};
Crash g_crashes[] = {
    {SIGSEGV, "SIGSEGV", {}}, {SIGBUS, "SIGBUS", {}},   {SIGFPE, "SIGFPE", {}},
    {SIGILL, "SIGILL", {}},   {SIGABRT, "SIGABRT", {}},
};

void WriteError(const char* text) {
  size_t size = std::strlen(text);
  while (size > 0) {
    const ssize_t written = write(STDERR_FILENO, text, size);
    if (written <= 0) return;
    text += written;
    size -= static_cast<size_t>(written);
  }
}

void Report(const char* signal) {
  internal::Activity activity = internal::Activity::kIdle;
  const char* const label = internal::RunningCallback(activity);
  if (label == nullptr) return;
  WriteError("callout: ");
  WriteError(signal);
  WriteError(" in the callback '");
  WriteError(label);
  WriteError(activity == internal::Activity::kDelivery ? "', which got what a tap sent\n"
                                                       : "', which the program called\n");
}

void OnCrash(int signal, siginfo_t* info, void* /*context*/) {
  for (const Crash& crash : g_crashes) {
    if (crash.signal != signal) continue;
    Report(crash.name);
    sigaction(signal, &crash.before, nullptr);
  }
  // A fault happens again when this handler returns. A signal that was sent does not, so the handler raises it; it is
  // delivered after the return.
  if (info->si_code <= 0) (void)raise(signal);
}

}  // namespace

void ReportCrashes() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = &OnCrash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (Crash& crash : g_crashes) {
      if (sigaction(crash.signal, nullptr, &crash.before) == 0) sigaction(crash.signal, &action, nullptr);
    }
  });
}

}  // namespace callout::pjrt

namespace callout::internal {
namespace {

// Reads an environment variable; returns `otherwise` if it is not set or not a number of seconds.
double Seconds(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && seconds >= 0) return seconds;
  Log(LogLevel::kWarning,
      Cat(name, "='", text, "' is no number of seconds; ", std::to_string(otherwise), " are taken"));
  return otherwise;
}

// Delivers taps at exit. Objects that were made before the host's first use are destroyed later, so taps' functions may
// still use them.
void DeliverBeforeExit() {
  if (ProcessIsExiting() || ProcessIsForkedChild() || DeliveryThread::IsCurrent()) return;
  const double seconds = Seconds("CALLOUT_EXIT_TIMEOUT_S", 10);
  const uint64_t lost = Delivery::Get().Shutdown(DeadlineAfter(seconds));
  if (lost == 0) return;
  Log(LogLevel::kWarning,
      Cat("exit: ", lost, " tap records were not delivered within ", std::to_string(seconds), " s"));
}

}  // namespace

void StartHostServices() {
  NoteProcessIsUsed();
  static const bool started = [] {
    SetDefaultHangReportSeconds(Seconds("CALLOUT_HANG_REPORT_S", 30));
    return std::atexit(&DeliverBeforeExit) == 0;
  }();
  (void)started;
}

}  // namespace callout::internal
