// SPDX-License-Identifier: Apache-2.0
//
// Makes callbacks of Python functions.
#include "module_bindings.h"

#include <nanobind/stl/optional.h>

#include "buffer_callback.h"
#include "buffer_object.h"
#include "errors.h"
#include "execution_context.h"
#include "python_callback.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

SharedRef Share(const nb::object& object) {
  return object.is_none() ? SharedRef() : SharedRef(Ref::Borrow(object.ptr()));
}

CallbackHandle MakePython(const std::string& label, const nb::object& function, const nb::object& unflatten,
                          const nb::object& unflatten_value, const nb::object& flatten, bool single_result,
                          const nb::object& device_lookup, const nb::object& index_lookup, const nb::object& transforms,
                          bool zero_copy, bool numpy_only, bool canonicalize, bool transforms_by_position,
                          bool barrier_raises, int log_source, const nb::object& explain) {
  DropGarbage();
  return {std::make_shared<PythonCallback>(
      label, PythonSignature{.function = Share(function),
                             .unflatten = Share(unflatten),
                             .unflatten_value = Share(unflatten_value),
                             .flatten = Share(flatten),
                             .single_result = single_result,
                             .explain = Share(explain),
                             .device_lookup = Share(device_lookup),
                             .index_lookup = Share(index_lookup),
                             .transforms = Share(transforms),
                             .transforms_by_position = transforms_by_position,
                             .barrier_raises = barrier_raises,
                             .log_source = static_cast<internal::LogSource>(log_source),
                             .zero_copy = zero_copy,
                             .numpy_only = numpy_only,
                             .canonicalize = canonicalize ? Canonicalize::k64To32 : Canonicalize::kNo})};
}

nb::tuple MakeBufferTypes() {
  PyObject* const types[] = {InitBuffers(), InitExecutionContext()};
  if (types[0] == nullptr || types[1] == nullptr) throw nb::python_error();
  return nb::make_tuple(nb::borrow(types[0]), nb::borrow(types[1]));
}

CallbackHandle MakeBuffer(const std::string& label, const nb::object& function, const nb::object& unflatten_out,
                          const nb::object& unflatten, bool numpy_only) {
  DropGarbage();
  return {std::make_shared<BufferCallback>(label, BufferSignature{.function = Share(function),
                                                                  .unflatten_out = Share(unflatten_out),
                                                                  .unflatten = Share(unflatten),
                                                                  .numpy_only = numpy_only})};
}

// A function may refer to the object that holds its callback, such as a method that is tapped in a program that its
// object keeps. Python's collector may see through the handle only while the handle is the sole owner: an executable's
// reference is not one of Python's objects.
int TraverseHandle(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* handle = nb::inst_ptr<CallbackHandle>(self);
  if (handle->callback == nullptr || handle->callback.use_count() != 1) return 0;
  const auto* callback = dynamic_cast<const Traversable*>(handle->callback.get());
  return callback == nullptr ? 0 : callback->Traverse(visit, arg);
}

int ClearHandle(PyObject* self) {
  nb::inst_ptr<CallbackHandle>(self)->callback.reset();
  return 0;
}

PyType_Slot handle_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&TraverseHandle)},
                              {Py_tp_clear, reinterpret_cast<void*>(&ClearHandle)},
                              {0, nullptr}};

bool IsIterator(nb::handle value) { return PyIter_Check(value.ptr()) != 0; }

bool IsIteratorOrNone(nb::handle value) { return value.is_none() || IsIterator(value); }

}  // namespace

CallbackHandle HandleOf(Result<std::shared_ptr<internal::Callback>> made) {
  ThrowIfError(made.status());
  return {std::move(made).value()};
}

void BindCallbacks(nb::module_& m) {
  nb::class_<CallbackHandle>(m, "Callback", nb::is_weak_referenceable(), nb::type_slots(handle_slots),
                             "A callback, kept alive by this object.")
      .def_prop_ro("label", [](const CallbackHandle& self) { return self.callback->label(); })
      .def_prop_ro(
          "id", [](const CallbackHandle& self) { return self.callback->id(); },
          "A number that no other callback ever has.")
      .def_prop_ro("is_native",
                   [](const CallbackHandle& self) { return self.callback->worker() == internal::Worker::kNative; })
      .def_prop_ro(
          "takes_buffers", [](const CallbackHandle& self) { return self.callback->takes_device_memory(); },
          "Whether it works on XLA's own memory.");
  m.def("make_python_callback", &MakePython, nb::arg("label"), nb::arg("function").none(),
        nb::arg("unflatten") = nb::none(), nb::arg("unflatten_value") = nb::none(), nb::arg("flatten") = nb::none(),
        nb::arg("single_result") = true, nb::arg("device_lookup") = nb::none(), nb::arg("index_lookup") = nb::none(),
        nb::arg("transforms") = nb::none(), nb::arg("zero_copy") = false, nb::arg("numpy_only") = false,
        nb::arg("canonicalize") = false, nb::arg("transforms_by_position") = false, nb::arg("barrier_raises") = false,
        nb::arg("log_source") = 0, nb::arg("explain") = nb::none());
  // While JAX flattens a list and asks which items are leaves, it holds borrowed references to them. Python code in
  // that test would let other threads, or the list's owner, drop items that JAX is about to use.
  m.def("is_iterator", &IsIterator, nb::arg("value").none(), "Runs no Python code.");
  m.def("is_iterator_or_none", &IsIteratorOrNone, nb::arg("value").none(), "Runs no Python code.");
  m.def("buffer_types", [types = MakeBufferTypes()] { return types; }, "(Buffer, ExecutionContext)");
  m.def("make_buffer_callback", &MakeBuffer, nb::arg("label"), nb::arg("function"), nb::arg("unflatten_out").none(),
        nb::arg("unflatten").none(), nb::arg("numpy_only"));
}

}  // namespace callout::python
