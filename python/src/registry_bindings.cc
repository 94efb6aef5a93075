// SPDX-License-Identifier: Apache-2.0
//
// Binds traced functions to names, and registers the user's callbacks under theirs.
#include "module_bindings.h"

#include <nanobind/stl/vector.h>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "core/callbacks/native_function.h"
#include "core/callbacks/registry.h"
#include "errors.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::Registry;

// Keeps a name bound for as long as a program may be compiled with it. Keeps no callback alive: Python's garbage
// collector looks into a callback only while it has a single owner.
class Binding {
 public:
  Binding(const std::string& base, const CallbackHandle& handle)
      : name_(Registry::Get().Bind(base, handle.callback)), callback_(handle.callback) {}
  ~Binding() { Registry::Get().Unbind(name_, callback_); }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  const std::weak_ptr<internal::Callback> callback_;
};

CallbackHandle LoadNative(const std::string& label, const FilePath& spec) {
  auto callback = internal::LoadNativeFunction(label, spec.bytes);
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

// Makes a callback from a PyCapsule over a callout_function record.
CallbackHandle NativeFromCapsule(const std::string& label, const nb::object& capsule) {
  const void* function = PyCapsule_GetPointer(capsule.ptr(), "callout_function");
  if (function == nullptr) nb::raise_python_error();
  auto callback = internal::MakeNativeFunction(label, *static_cast<const callout_function*>(function));
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

// Returns (kind, dtype, rank, name) of each parameter; None for a function that does not describe itself.
nb::object NativeParameters(const CallbackHandle& handle) {
  const std::span<const callout_parameter> parameters = handle.callback->parameters();
  if (parameters.empty()) return nb::none();
  nb::list all;
  for (const callout_parameter& parameter : parameters) {
    const std::string_view dtype = NumpyName(static_cast<DType>(parameter.dtype));
    all.append(nb::make_tuple(parameter.kind, std::string(dtype), parameter.rank,
                              std::string(parameter.name == nullptr ? "" : parameter.name)));
  }
  return all;
}

CallbackHandle Find(const std::string& name) {
  auto callback = Registry::Get().Find(name);
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

}  // namespace

void BindRegistry(nb::module_& m) {
  m.def("load_native", &LoadNative, nb::arg("label"), nb::arg("spec"));
  m.def("native_parameters", &NativeParameters, nb::arg("callback"), "(kind, dtype, rank, name) of each parameter.");
  m.def("native_from_capsule", &NativeFromCapsule, nb::arg("label"), nb::arg("capsule"));
  nb::class_<Binding>(m, "Binding", "A name under which a callback is found while both live.")
      .def(nb::init<const std::string&, const CallbackHandle&>(), nb::arg("base"), nb::arg("callback"))
      .def_prop_ro("name", &Binding::name);
  m.def(
      "register_callback",
      [](const std::string& name, const CallbackHandle& handle, bool replace) {
        ThrowIfError(Registry::Get().Register(name, handle.callback, replace));
      },
      nb::arg("name"), nb::arg("callback"), nb::arg("replace"));
  m.def("unregister", [](const std::string& name) { ThrowIfError(Registry::Get().Unregister(name)); }, nb::arg("name"));
  m.def("find", &Find, nb::arg("name"));
  m.def("registered_names", [] { return Registry::Get().RegisteredNames(); });
}

}  // namespace callout::python
