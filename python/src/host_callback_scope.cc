// SPDX-License-Identifier: Apache-2.0
#include "host_callback_scope.h"

#include "core/frame/xla_scope.h"
#include "module_bindings.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

thread_local Work* t_work = nullptr;  // the work of this thread that CalledInScope runs

void RunOnce(Work& work) {
  t_work = nullptr;
  try {
    work.run(work.body);
  } catch (...) {  // exceptions must not pass through frames of CPython and jaxlib
    work.thrown = std::current_exception();
  }
}

// Runs this thread's work. Ignores the arguments that jaxlib passes.
PyObject* CalledInScope(PyObject*, PyObject* const*, Py_ssize_t) {
  if (t_work != nullptr) RunOnce(*t_work);
  Py_RETURN_NONE;
}

PyMethodDef called_in_scope = {"host_callback",
                               reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&CalledInScope)),
                               METH_FASTCALL, "Does what this thread waits for in XLA's host callback scope."};

}  // namespace

void RunWorkInXlaScope(void* frame, Work work) {
  t_work = &work;
  internal::CallInXlaScope(static_cast<XLA_FFI_CallFrame*>(frame));
  if (t_work == &work) RunOnce(work);
  if (work.thrown) std::rethrow_exception(work.thrown);
}

void BindXlaScope(nb::module_& m) {
  // Leaked: programs carry it, and jaxlib calls it by its address, until the process ends.
  static PyObject* const function = PyCFunction_NewEx(&called_in_scope, nullptr, nullptr);
  if (function == nullptr) throw nb::python_error();
  m.def("host_callback", [] { return nb::borrow(function); }, "What every program with Python calls carries.");
  m.def(
      "provide_host_callback_handler",
      [](const nb::object& capsule) {
        void* handler = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
        if (handler == nullptr) throw nb::python_error();
        internal::ProvideScopeHandler(handler, function);
      },
      nb::arg("capsule"), "A handler of jaxlib's that calls a program's host callback in XLA's scope.");
}

}  // namespace callout::python
