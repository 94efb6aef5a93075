// SPDX-License-Identifier: Apache-2.0
#include "kinds/kinds.h"

#include <memory>
#include <string>

#include "checks/check.h"
#include "registry/makers.h"
#include "registry/progress_clock.h"
#include "sinks/progress_bar.h"
#include "sinks/value_print.h"
#include "watch/watch.h"

namespace callout::internal {
namespace {

// What a program says in the name "kind:payload". Its makers get any payload.
struct ProgramKind {
  std::string_view kind;
  const char* description;
  Result<std::shared_ptr<Callback>> (*make)(const std::string& label, std::string_view payload);
};

constexpr ProgramKind kProgramKinds[] = {
    {kCheckKind, "check", &MakeCheckOf},
    {kPrintKind, "id_print", &MakeValuePrint},
    {kProgressBarKind, "progress bar", &MakeProgressBar},
    {kProgressClockKind, "clock of progress bars", &MakeProgressClock},
    {kWatchKind, "watch", &MakeWatchOf},
};

}  // namespace

void RegisterKinds() {
  static const bool done = [] {
    for (const ProgramKind& each : kProgramKinds) Makers::Get().RegisterDefault(std::string(each.kind), each.make);
    return true;
  }();
  (void)done;
}

const char* ProgramKindOf(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return nullptr;
  for (const ProgramKind& each : kProgramKinds) {
    if (each.kind == name.substr(0, colon)) return each.description;
  }
  return nullptr;
}

}  // namespace callout::internal
