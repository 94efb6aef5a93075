// SPDX-License-Identifier: Apache-2.0
#include "function_span.h"

#include <nanobind/nanobind.h>

#include <utility>

#include "calling.h"
#include "python_text.h"

namespace callout::python {
namespace {

struct Annotation {
  Ref factory;
  Ref is_enabled;

  static Annotation Get() {
    const nanobind::ft_lock_guard lock(g_mutex);
    return {Ref::Borrow(g_current->factory.get()), Ref::Borrow(g_current->is_enabled.get())};
  }
  static Annotation Exchange(Annotation other) {
    const nanobind::ft_lock_guard lock(g_mutex);
    return std::exchange(*g_current, std::move(other));
  }

 private:
  // Guarded by the GIL, or by the mutex where there is no GIL. Never dropped: threads may be in a callback at exit.
  static nanobind::ft_mutex g_mutex;
  static Annotation* const g_current;
};
nanobind::ft_mutex Annotation::g_mutex;
Annotation* const Annotation::g_current = new Annotation;

bool IsEnabled(PyObject* asked) {
  if (asked == nullptr) return true;
  const Ref answer(PyObject_CallNoArgs(asked));
  return answer && PyObject_IsTrue(answer.get()) == 1;
}

Ref Enter(PyObject* factory, const std::string& label) {
  const Ref text = StrOf(label);
  Ref annotation = text ? CallPython(factory, text.get()) : Ref();
  const Ref entered(annotation ? PyObject_CallMethod(annotation.get(), "__enter__", nullptr) : nullptr);
  return entered ? std::move(annotation) : Ref();
}

}  // namespace

void FunctionSpan::Annotate(const std::string& label) {
  const Annotation annotation = Annotation::Get();
  if (!annotation.factory || !IsEnabled(annotation.is_enabled.get())) {
    PyErr_Clear();
    return;
  }
  annotation_ = Enter(annotation.factory.get(), label);
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
  const Annotation old = Annotation::Exchange({Ref::Borrow(factory), Ref::Borrow(is_enabled)});
}

}  // namespace callout::python
