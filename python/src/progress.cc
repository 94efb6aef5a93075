// SPDX-License-Identifier: Apache-2.0
//
// Progress bars in a Python process: their clock, and the bars that are embedded in exported programs.
#include "module_bindings.h"

#include "core/callbacks/callback.h"
#include "embedded_tap.h"
#include "python_text.h"
#include "sinks/progress_bar.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

constexpr EmbeddedTap::Maker kBarMaker = {"callout.progress._embedded", "carried_bar"};

Result<std::shared_ptr<internal::Callback>> MakeBar(const std::string& label, std::string_view payload) {
  return std::shared_ptr<internal::Callback>(std::make_shared<EmbeddedTap>(label, std::string(payload), kBarMaker));
}

}  // namespace

void BindProgress(nb::module_& m) {
  // A host that has registered its own maker for this kind keeps it.
  (void)internal::Makers::Get().Register(std::string(internal::kProgressBarKind), &MakeBar,
                                         internal::Makers::For::kPrograms);
}

}  // namespace callout::python
