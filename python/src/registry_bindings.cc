// SPDX-License-Identifier: Apache-2.0
//
// Names: binding traced functions, registering the user's.
#include "bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "callout/abi.h"
#include "errors.h"
#include "registry/native_function.h"
#include "registry/registry.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::Registry;

CallbackHandle LoadNative(const std::string& label, const std::string& spec) {
  auto callback = internal::LoadNativeFunction(label, spec);
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

// A PyCapsule over a callout_function record.
CallbackHandle NativeFromCapsule(const std::string& label, const nb::object& capsule) {
  const void* function = PyCapsule_GetPointer(capsule.ptr(), "callout_function");
  if (function == nullptr) nb::raise_python_error();
  auto callback = internal::MakeNativeFunction(label, *static_cast<const callout_function*>(function));
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

CallbackHandle Find(const std::string& name) {
  auto callback = Registry::Get().Find(name);
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

}  // namespace

void BindRegistry(nb::module_& m) {
  m.def("load_native", &LoadNative, nb::arg("label"), nb::arg("spec"));
  m.def("native_from_capsule", &NativeFromCapsule, nb::arg("label"), nb::arg("capsule"));
  m.def(
      "bind",
      [](const std::string& base, const CallbackHandle& handle) { return Registry::Get().Bind(base, handle.callback); },
      nb::arg("base"), nb::arg("callback"), "The name under which the callback is found while it lives.");
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
