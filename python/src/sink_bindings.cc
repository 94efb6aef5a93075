// SPDX-License-Identifier: Apache-2.0
//
// Making native sinks.
#include "bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "frame/dtype_row.h"
#include "sinks/sinks.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

void ThrowValueError(const Status& status) {
  if (!status.ok()) throw nb::value_error(status.c_message());
}

CallbackHandle MakePrintSink(const std::string& label, int fd, std::optional<std::string> format, bool update,
                             std::optional<bool> colour) {
  internal::PrintOptions options = {.format = std::move(format), .update = update};
  if (colour) options.colour = *colour ? internal::PrintColour::kAlways : internal::PrintColour::kNever;
  auto sink = internal::MakePrintSink(label, fd, options);
  ThrowValueError(sink.status());
  return {std::move(sink).value()};
}

DType DTypeNamed(std::string_view name) {
  for (const internal::DTypeRow& row : internal::kDTypeRows) {
    if (!row.numpy_name.empty() && row.numpy_name == name) return row.dtype;
  }
  throw nb::value_error(("callout: XLA has no dtype " + std::string(name)).c_str());
}

void CheckPrintFormat(const std::string& format, const std::vector<std::string>& leaves,
                      const std::vector<std::string>& dtypes) {
  std::vector<DType> types;
  for (const std::string& name : dtypes) types.push_back(DTypeNamed(name));
  ThrowValueError(internal::CheckPrintFormat(format, leaves, types));
}

}  // namespace

void BindSinks(nb::module_& m) {
  m.def(
      "make_null_sink", [](const std::string& label) { return CallbackHandle{internal::MakeNullSink(label)}; },
      nb::arg("label"));
  m.def("make_print_sink", &MakePrintSink, nb::arg("label"), nb::arg("fd"), nb::arg("format").none(), nb::arg("update"),
        nb::arg("colour").none(), "`colour`: None for where they are wanted.");
  m.def("check_print_format", &CheckPrintFormat, nb::arg("format"), nb::arg("leaves"), nb::arg("dtypes"),
        "ValueError if it asks for what these leaves do not have.");
  m.def(
      "make_tee_sink",
      [](const std::string& label, const std::vector<CallbackHandle>& receivers) {
        std::vector<std::shared_ptr<internal::Callback>> callbacks;
        for (const CallbackHandle& receiver : receivers) callbacks.push_back(receiver.callback);
        return HandleOf(internal::MakeTeeSink(label, std::move(callbacks)));
      },
      nb::arg("label"), nb::arg("receivers"));
}

}  // namespace callout::python
