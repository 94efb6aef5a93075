// SPDX-License-Identifier: Apache-2.0
//
// A Hook stands in the place of a function of JAX's. A Hook is not a Python function, so exceptions and traces of the
// original have no frame of Callout's: programs without anything of Callout's keep their tracebacks and the locations
// of their operations.
#include "module_bindings.h"

#include <atomic>
#include <string>
#include <utility>

#include "errors.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

struct Hook {
  const Ref original;
  const Ref before;
  const Ref after;
  const Ref failed;
  const std::string place;
  std::atomic<bool> active{true};
};

Ref Part(nb::handle part) { return part.is_none() ? Ref() : Ref::Borrow(part.ptr()); }

// Returns the tuple of `first` and the items of `args`.
Ref Prepend(PyObject* first, PyObject* args) {
  const Py_ssize_t size = PyTuple_GET_SIZE(args);
  Ref all(PyTuple_New(size + 1));
  if (!all) return all;
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(first));
  for (Py_ssize_t i = 0; i < size; ++i) PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  return all;
}

Ref CallWith(PyObject* function, PyObject* first, PyObject* args, PyObject* kwargs) {
  const Ref all = Prepend(first, args);
  return Ref(all ? PyObject_Call(function, all.get(), kwargs) : nullptr);
}

// Calls `failed` with the original's exception, which stays set unless `failed` raises another.
void TellFailure(PyObject* failed, PyObject* args, PyObject* kwargs) {
  const Ref exception = FetchException();
  if (!exception) return;
  const Ref trace(PyException_GetTraceback(exception.get()));
  const Ref answer = CallWith(failed, exception.get(), args, kwargs);
  if (!answer) return;
  if (PyException_SetTraceback(exception.get(), trace ? trace.get() : Py_None) != 0) return;
  RestoreException(exception.get());
}

PyObject* CallHook(PyObject* self, PyObject* args, PyObject* kwargs) {
  const auto* hook = nb::inst_ptr<Hook>(self);
  const Ref original = Ref::Borrow(hook->original.get());
  if (!hook->active) return PyObject_Call(original.get(), args, kwargs);
  const Ref before = Ref::Borrow(hook->before.get());
  const Ref after = Ref::Borrow(hook->after.get());
  const Ref failed = Ref::Borrow(hook->failed.get());
  if (before) {
    Ref answer = CallWith(before.get(), original.get(), args, kwargs);
    if (answer.get() != Py_NotImplemented) return answer.release();
  }
  Ref result(PyObject_Call(original.get(), args, kwargs));
  if (!result && failed) TellFailure(failed.get(), args, kwargs);
  if (result && after && !CallWith(after.get(), result.get(), args, kwargs)) return nullptr;
  return result.release();
}

// In a class, a hook binds as a method, like the function that it replaces.
PyObject* BindHook(PyObject* self, PyObject* object, PyObject* /*type*/) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

// A pickle names the place of the hook, and the process that unpickles takes what is in that place: JAX's function or a
// hook of its own. A place without a name, such as an entry of a mapping, is pickled as the original.
nb::tuple ReduceHook(const Hook& self) {
  if (self.place.empty()) {
    return nb::make_tuple(nb::module_::import_("copy").attr("copy"), nb::make_tuple(nb::borrow(self.original.get())));
  }
  return nb::make_tuple(nb::module_::import_("pkgutil").attr("resolve_name"), nb::make_tuple(self.place));
}

int TraverseHook(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* hook = nb::inst_ptr<Hook>(self);
  for (const Ref* part : {&hook->original, &hook->before, &hook->after, &hook->failed}) Py_VISIT(part->get());
  return 0;
}

PyType_Slot hook_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&CallHook)},
                            {Py_tp_descr_get, reinterpret_cast<void*>(&BindHook)},
                            {Py_tp_traverse, reinterpret_cast<void*>(&TraverseHook)},
                            {0, nullptr}};

}  // namespace

void BindHooks(nb::module_& m) {
  nb::class_<Hook>(
      m, "Hook", nb::type_slots(hook_slots),
      "A function in the place of `original`. An inactive one only calls that.\n\n"
      "before(original, *args): its answer is the result, unless that is NotImplemented. after(result, *args).\n"
      "failed(exception, *args): the exception stays unless it raises another.\n"
      "place: \"module:name\" of where the hook is, by which it is pickled; \"\" pickles the original.")
      .def(
          "__init__",
          [](Hook* self, nb::callable original, nb::object before, nb::object after, nb::object failed,
             std::string place) {
            new (self) Hook{Part(original), Part(before), Part(after), Part(failed), std::move(place)};
          },
          nb::arg("original"), nb::kw_only(), nb::arg("before") = nb::none(), nb::arg("after") = nb::none(),
          nb::arg("failed") = nb::none(), nb::arg("place") = "")
      .def_prop_rw(
          "active", [](const Hook& self) { return self.active.load(); }, [](Hook& self, bool on) { self.active = on; })
      .def_prop_ro("__wrapped__", [](const Hook& self) { return nb::borrow(self.original.get()); })
      .def_prop_ro("callout_original", [](const Hook& self) { return nb::borrow(self.original.get()); })
      .def("__reduce__", &ReduceHook)
      .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); }, nb::arg("memo"))
      .def("__getattr__", [](const Hook& self, nb::str name) { return nb::getattr(self.original.get(), name); });
}

}  // namespace callout::python
