// SPDX-License-Identifier: Apache-2.0
//
// The function that JAX's C++ calls when it makes the results of a program with callbacks. It puts one result into the
// dict where JAX looks for tokens, in the place of the token that JAX's slower path would have made.
// callout/_callbacks/fast_path.py describes why.
#include "gil.h"
#include "module_bindings.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Marks the end of a program by one of its results, which is ready when the program ends. None once the end was waited
// for.
struct ProgramEnd {
  nb::object result;
};

// The devices of a program, and the object with their tokens: an attribute of JAX's thread-local token set.
struct EndMarker {
  nb::tuple devices;
  nb::object token_set;
  nb::object remember;  // called with the thread's dict when the thread has a new one
};

// The dict that this thread last passed to `remember`. It is held, so that no later dict has its address.
thread_local SharedRef t_known;

bool Remember(const EndMarker& marker, PyObject* outputs) {
  if (t_known.get() == outputs) [[likely]]
    return true;
  if (!Ref(PyObject_CallOneArg(marker.remember.ptr(), outputs))) return false;
  t_known = SharedRef(Ref::Borrow(outputs));
  return true;
}

PyObject* g_tokens_name = nullptr;  // made with the module, never released

nb::object MarkEnd(const EndMarker& marker, const nb::tuple& results) {
  const nb::object result = results[0];
  const Ref outputs(PyObject_GetAttr(marker.token_set.ptr(), g_tokens_name));
  if (!outputs) nb::raise_python_error();
  const nb::object end = nb::cast(ProgramEnd{result});
  for (nb::handle device : marker.devices) {
    if (PyDict_SetItem(outputs.get(), device.ptr(), end.ptr()) != 0) nb::raise_python_error();
  }
  if (!Remember(marker, outputs.get())) nb::raise_python_error();
  return result;
}

}  // namespace

void BindJitResults(nb::module_& m) {
  g_tokens_name = PyUnicode_InternFromString("output_runtime_tokens");
  if (g_tokens_name == nullptr) nb::raise_python_error();
  nb::class_<ProgramEnd>(m, "ProgramEnd", "The end of a program, in the place of JAX's token.")
      .def_prop_rw(
          "result", [](const ProgramEnd& self) { return self.result; },
          [](ProgramEnd& self, nb::object value) { std::swap(self.result, value); }, nb::lock_self(),
          nb::for_setter(nb::arg("value").none()))
      .def("block_until_ready",
           [](nb::handle self) { nb::module_::import_("callout._callbacks.fast_path").attr("wait_for")(self); });
  nb::class_<EndMarker>(m, "EndMarker", "What `mark_end` has to know of a program.")
      .def(
          "__init__",
          [](EndMarker* self, nb::tuple devices, nb::object token_set, nb::object remember) {
            new (self) EndMarker{std::move(devices), std::move(token_set), std::move(remember)};
          },
          nb::arg("devices"), nb::arg("token_set"), nb::arg("remember"));
  m.def("mark_end", &MarkEnd, nb::arg("marker"), nb::arg("results"),
        "The one result of a program, which stands for the program's end from now on.");
}

}  // namespace callout::python
