// SPDX-License-Identifier: Apache-2.0
//
// Makes native sinks.
#include "module_bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/frame/elements.h"
#include "errors.h"
#include "gil.h"
#include "python_text.h"
#include "sinks/catalog/callback_kinds.h"
#include "sinks/sink.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Encodes the options: an option that is a path for this kind becomes the operating system's bytes, all others UTF-8.
internal::SinkOptions::Given OptionsOf(const internal::SinkKind& kind,
                                       const std::vector<std::pair<std::string, nb::str>>& options) {
  internal::SinkOptions::Given given;
  for (const auto& [name, value] : options) {
    const bool is_path = std::ranges::any_of(kind.options, [&](const internal::SinkOption& option) {
      return option.type == internal::OptionType::kPath && option.name == name;
    });
    if (is_path) {
      given.emplace_back(name, nb::cast<FilePath>(value).bytes);
    } else {
      given.emplace_back(name, nb::cast<std::string>(value));
    }
  }
  return given;
}

// Makes the sink without the GIL: opening a pipe waits for its reader, and file systems may be slow. A signal handler
// may raise.
CallbackHandle MakeSink(const std::string& label, const std::string& name,
                        const std::vector<std::pair<std::string, nb::str>>& given_options) {
  const internal::SinkKind* const kind = internal::FindSinkKind(name);
  if (kind == nullptr) Throw(PyExc_ValueError, "there are no sinks of kind " + name);
  const internal::SinkOptions::Given options = OptionsOf(*kind, given_options);
  for (;;) {
    auto made = [&] {
      const internal::LogLater messages;
      const GilRelease release;
      return internal::MakeSink(label, *kind, options);
    }();
    if (made.status().code() != StatusCode::kCancelled) {
      CallbackHandle sink = HandleOf(std::move(made));
      for (const internal::SinkOption& option : kind->options) {
        if (option.type != internal::OptionType::kPath) continue;
        for (const auto& [given, path] : options) {
          if (given == option.name) RememberFile(path, sink);
        }
      }
      return sink;
    }
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  }
}

DType DTypeNamed(std::string_view name) {
  for (const internal::DTypeRow& row : internal::kDTypeRows) {
    if (!row.numpy_name.empty() && row.numpy_name == name) return row.dtype;
  }
  Throw(PyExc_ValueError, "callout: XLA has no dtype " + std::string(name));
}

void CheckPrintFormat(const std::string& format, const std::vector<std::string>& leaves,
                      const std::vector<std::string>& dtypes) {
  std::vector<DType> types;
  for (const std::string& name : dtypes) types.push_back(DTypeNamed(name));
  const Status status = internal::CheckPrintFormat(format, leaves, types);
  if (!status.ok()) Throw(PyExc_ValueError, status.message());
}

}  // namespace

void BindSinks(nb::module_& m) {
  m.def("make_sink", &MakeSink, nb::arg("label"), nb::arg("kind"), nb::arg("options"),
        "`options`: (name, value) as text, see docs/sinks.md; of lists one for each.");
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
