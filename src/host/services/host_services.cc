// SPDX-License-Identifier: Apache-2.0
#include "host/services/host_services.h"

#include <cstdlib>
#include <string>

#include "core/base/log.h"
#include "core/base/process_state.h"
#include "core/base/ticks.h"
#include "core/delivery/delivery.h"
#include "core/delivery/watchdog.h"

namespace callout::internal {
namespace {

// Of an environment variable; `otherwise` if it is not set or no number of seconds.
double Seconds(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && seconds >= 0) return seconds;
  Log(LogLevel::kWarning,
      std::string(name) + "='" + text + "' is no number of seconds; " + std::to_string(otherwise) + " are taken");
  return otherwise;
}

// What is destroyed after this was made before the host: a tap's function may still use it.
void DeliverBeforeExit() {
  if (ProcessIsExiting() || ProcessIsForkedChild() || DeliveryThread::IsCurrent()) return;
  const double seconds = Seconds("CALLOUT_EXIT_TIMEOUT_S", 10);
  const uint64_t lost = Delivery::Get().Shutdown(DeadlineAfter(seconds));
  if (lost == 0) return;
  Log(LogLevel::kWarning,
      "exit: " + std::to_string(lost) + " tap records were not delivered within " + std::to_string(seconds) + " s");
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
