// SPDX-License-Identifier: Apache-2.0
//
// Prints that programs carry as text (sinks/value_print.h): in a Python process they go where `print` goes.
#include "module_bindings.h"

#include "core/callbacks/callback.h"
#include "embedded_tap.h"
#include "errors.h"
#include "python_text.h"
#include "sinks/value_print.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::Callback;

constexpr EmbeddedTap::Maker kPrintMaker = {"callout._targets.print_target", "carried_print"};

Result<std::shared_ptr<Callback>> MakePythonPrint(const std::string& label, std::string_view payload) {
  CALLOUT_RETURN_IF_ERROR(internal::ParseValuePrint(payload).status());
  return std::shared_ptr<Callback>(std::make_shared<EmbeddedTap>(label, std::string(payload), kPrintMaker));
}

nb::tuple Parse(const std::string& payload) {
  const auto parsed = internal::ParseValuePrint(payload);
  ThrowIfError(parsed.status());
  const internal::ValuePrint& print = parsed.value();
  nb::list pieces;
  for (const internal::LayoutPiece& piece : print.layout) {
    pieces.append(nb::make_tuple(static_cast<int>(piece.kind), piece.text, piece.number));
  }
  return nb::make_tuple(print.head, print.has_device ? TextObject(print.after_device) : nb::none(), pieces,
                        print.num_leaves, print.threshold, print.exponents_from);
}

}  // namespace

void BindValuePrint(nb::module_& m) {
  // A host that has registered its own maker for this kind keeps it.
  (void)internal::Makers::Get().Register(std::string(internal::kPrintKind), &MakePythonPrint,
                                         internal::Makers::For::kPrograms);
  m.def("parse_value_print", &Parse, nb::arg("payload"),
        "(head, what follows the device or None, pieces, number of leaves, threshold, exponents from)");
}

}  // namespace callout::python
