// SPDX-License-Identifier: Apache-2.0
#include "function_span.h"

#include "calling.h"

namespace callout::python {
namespace {

// Guarded by the GIL. Never dropped at exit: threads may be in a callback then.
PyObject* g_factory = nullptr;
PyObject* g_is_enabled = nullptr;

bool IsEnabled() {
  if (g_is_enabled == nullptr) return true;
  const Ref answer(PyObject_CallNoArgs(g_is_enabled));
  return answer && PyObject_IsTrue(answer.get()) == 1;
}

Ref Enter(const std::string& label) {
  const Ref text(PyUnicode_DecodeUTF8(label.data(), static_cast<Py_ssize_t>(label.size()), "replace"));
  Ref annotation = text ? CallPython(g_factory, text.get()) : Ref();
  const Ref entered(annotation ? PyObject_CallMethod(annotation.get(), "__enter__", nullptr) : nullptr);
  return entered ? std::move(annotation) : Ref();
}

}  // namespace

void FunctionSpan::Annotate(const std::string& label) {
  if (g_factory == nullptr || !IsEnabled()) {
    PyErr_Clear();
    return;
  }
  annotation_ = Enter(label);
  if (!annotation_) PyErr_Clear();  // a profile never fails a program
}

void FunctionSpan::End() {
  if (annotation_) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const Ref nothing(PyObject_CallMethod(annotation_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!nothing) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  }
  span_.End({.kind = internal::ProfileKind::kFunction});
}

void SetAnnotation(PyObject* factory, PyObject* is_enabled) {
  Py_XINCREF(factory);
  Py_XINCREF(is_enabled);
  PyObject* const old[] = {std::exchange(g_factory, factory), std::exchange(g_is_enabled, is_enabled)};
  for (PyObject* each : old) Py_XDECREF(each);
}

}  // namespace callout::python
