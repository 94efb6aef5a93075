// SPDX-License-Identifier: Apache-2.0
//
// Restores the exceptions of callbacks on JAX's fast path. From its second call on, C++ alone runs a jitted function,
// and turns every failure into a ValueError that Python cannot intercept. Each jitted function has a vectorcall pointer
// (PEP 590); this file wraps jaxlib's. A call that succeeds pays for one more C call.
#include "module_bindings.h"

#include <atomic>

#include "errors.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Replaces the current error, a ValueError with the text of a failed callback, by the one that Python's own path
// through JAX raises.
void TranslateError() {
  if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) return;
  const Ref error = FetchException();
  const Ref module(error ? PyImport_ImportModule("callout._base.errors") : nullptr);
  const Ref translated(module ? PyObject_CallMethod(module.get(), "of_fast_path", "O", error.get()) : nullptr);
  PyErr_Clear();  // an error of the translation, at the end of the process
  if (translated && translated.get() != Py_None) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(translated.get())), translated.get());
  } else if (error) {
    RestoreException(error.get());
  }
}

std::atomic<vectorcallfunc> g_jaxlib_call{nullptr};  // the same for all jitted functions

vectorcallfunc* CallSlot(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0) return nullptr;
  return reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(object) + type->tp_vectorcall_offset);
}

PyObject* CallAndTranslate(PyObject* callable, PyObject* const* args, size_t count, PyObject* keywords) {
#ifdef Py_GIL_DISABLED
  // Acquire: pairs with the store in TranslateErrorsOf. The interpreter's own read of the slot orders nothing, so the
  // processor may have read g_jaxlib_call before the slot.
  (void)std::atomic_ref(*CallSlot(callable)).load(std::memory_order_acquire);
#endif
  PyObject* result = g_jaxlib_call.load(std::memory_order_relaxed)(callable, args, count, keywords);
  if (result == nullptr) [[unlikely]]
    TranslateError();
  return result;
}

// Makes failures of a jitted function raise what they raise at the first call. Idempotent. Returns false if the object
// is not a jitted function of the known kind.
bool TranslateErrorsOf(nb::handle jitted) {
  vectorcallfunc* slot = CallSlot(jitted.ptr());
  if (slot == nullptr) return false;
  const std::atomic_ref call(*slot);  // other threads may be calling the function
  const vectorcallfunc found = call.load();
  if (found == nullptr) return false;
  if (found == &CallAndTranslate) return true;
  vectorcallfunc known = nullptr;
  if (!g_jaxlib_call.compare_exchange_strong(known, found) && known != found) return false;
  call.store(&CallAndTranslate);
  return true;
}

int TranslateIfOf(PyObject* object, void* type) {
  if (Py_TYPE(object) == type) TranslateErrorsOf(object);
  return 1;  // 1: continue the visit
}

// Calls TranslateErrorsOf for all objects of a type. The collector's list of objects holds tuples that other threads
// are still making, and CPython before 3.14 cannot finish a tuple to which someone else refers. So no Python code runs
// while this list exists.
void TranslateErrorsOfAll(nb::type_object type) {
#if PY_VERSION_HEX >= 0x030C0000
  PyUnstable_GC_VisitObjects(&TranslateIfOf, type.ptr());
#else
  const nb::object get_objects = nb::module_::import_("gc").attr("get_objects");
  const Ref all(PyObject_CallNoArgs(get_objects.ptr()));
  if (!all) nb::raise_python_error();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) TranslateIfOf(PyList_GET_ITEM(all.get(), i), type.ptr());
#endif
}

}  // namespace

void BindJitErrors(nb::module_& m) {
  // `made_of` takes the objects that the function was made of, for use as a hook behind the function that makes it.
  m.def(
      "translate_errors_of", [](nb::handle jitted, const nb::args&) { return TranslateErrorsOf(jitted); },
      nb::arg("jitted"), nb::arg("made_of"),
      nb::sig("def translate_errors_of(jitted: object, *made_of: object) -> bool"),
      "Makes what a jitted function raises from its second call on what it raises at its first. False if it cannot.");
  m.def("translate_errors_of_all", &TranslateErrorsOfAll, nb::arg("kind"),
        nb::sig("def translate_errors_of_all(kind: type) -> None"),
        "Does so for all jitted functions there are, of the type that they have.");
}

}  // namespace callout::python
