// SPDX-License-Identifier: Apache-2.0
//
// Progress bars: their clock, and those that exported programs carry along, in a Python process.
#include "module_bindings.h"

#include "carried_tap.h"
#include "core/callbacks/callback.h"
#include "python_text.h"
#include "sinks/progress_bar.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

constexpr CarriedTap::Maker kMaker = {"callout.progress._carried", "carried_bar"};

Result<std::shared_ptr<internal::Callback>> MakeBar(const std::string& label, std::string_view payload) {
  return std::shared_ptr<internal::Callback>(std::make_shared<CarriedTap>(label, std::string(payload), kMaker));
}

}  // namespace

void BindProgress(nb::module_& m) {
  // A host that has a maker of its own for this kind keeps it.
  (void)internal::Makers::Get().Register(std::string(internal::kProgressBarKind), &MakeBar,
                                         internal::Makers::For::kPrograms);
  m.attr("progress_bar_prefix") = std::string(internal::kProgressBarKind) + ":";
  m.attr("progress_clock_name") = std::string(internal::kProgressClockKind) + ":";
}

}  // namespace callout::python
