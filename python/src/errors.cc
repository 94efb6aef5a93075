// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/callbacks/invoke.h"
#include "python_text.h"

namespace callout::python {

Ref FetchException() {
#if PY_VERSION_HEX >= 0x030C0000
  return Ref(PyErr_GetRaisedException());
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr && value != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref(value);
#endif
}

void RestoreException(PyObject* exception) {
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(Py_NewRef(exception));
#else
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception))), Py_NewRef(exception),
                PyException_GetTraceback(exception));
#endif
}

namespace {

Ref CallErrors(const char* function, PyObject* argument) {
  Ref module(PyImport_ImportModule("callout._base.errors"));
  Ref fn(module ? PyObject_GetAttrString(module.get(), function) : nullptr);
  return Ref(fn && argument != nullptr ? PyObject_CallOneArg(fn.get(), argument) : nullptr);
}

}  // namespace

Status TakePythonError(Frames frames) {
  const Ref exception = FetchException();
  if (!exception) return InternalError("a Python function failed without setting an error");
  Ref text = CallErrors(frames == Frames::kClear ? "keep_without_variables" : "keep", exception.get());
  std::optional<std::string> utf8 = text ? Utf8Of(text.get()) : std::nullopt;
  const bool no_memory = PyObject_TypeCheck(exception.get(), reinterpret_cast<PyTypeObject*>(PyExc_MemoryError)) != 0;
  const StatusCode code = no_memory ? StatusCode::kResourceExhausted : StatusCode::kInternal;
  if (utf8) return {code, *std::move(utf8)};
  PyErr_Clear();  // the interpreter is going away, or out of memory: at least say what it was
  return {code, std::string("a Python exception of type ") + Py_TYPE(exception.get())->tp_name};
}

Status WithoutException(const Status& failed, const Status& kept) {
  const std::string text = std::string(failed.message()) + "\nBesides, " + std::string(kept.message());
  const Ref argument = StrOf(text);
  if (!CallErrors("keep_text", argument.get())) PyErr_Clear();
  return Status(failed.code(), text);
}

void LogFailedCall(const internal::Callback& callback, int32_t device_ordinal, const Status& status) {
  if (!internal::LogEnabled(internal::LogLevel::kDebug)) [[likely]]
    return;
  const std::string text = internal::DescribeFailure(callback, device_ordinal, status);
  const Ref argument = StrOf(text);
  if (!argument || !CallErrors("log_failed_call", argument.get())) PyErr_Clear();
}

void SetPythonError(const Status& status) {
  const Ref text = StrOf(status.message());
  const Ref arguments(text ? Py_BuildValue("(iO)", static_cast<int>(status.code()), text.get()) : nullptr);
  const Ref exception = CallErrors("recall", arguments.get());
  if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

void ThrowIfError(const Status& status) {
  if (status.ok()) return;
  SetPythonError(status);
  nanobind::raise_python_error();
}

}  // namespace callout::python
