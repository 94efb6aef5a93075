// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>
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

// Calls `function` of callout._base.errors. Null with a Python error, also if `arguments` are null.
Ref CallErrors(const char* function, const Ref& arguments) {
  Ref module(PyImport_ImportModule("callout._base.errors"));
  Ref fn(module ? PyObject_GetAttrString(module.get(), function) : nullptr);
  return Ref(fn && arguments ? PyObject_CallObject(fn.get(), arguments.get()) : nullptr);
}

Ref NumberAndText(uint64_t exception, std::string_view message) {
  const Ref text = StrOf(message);
  return Ref(text ? Py_BuildValue("(KO)", static_cast<unsigned long long>(exception), text.get()) : nullptr);
}

// Unpacks the (number, text) that the function `take` of callout._base.errors returns.
std::optional<std::pair<uint64_t, std::string>> NumberAndTextOf(PyObject* taken) {
  unsigned long long number = 0;
  PyObject* text = nullptr;
  if (taken == nullptr || PyArg_ParseTuple(taken, "KU", &number, &text) == 0) return std::nullopt;
  std::optional<std::string> utf8 = Utf8Of(text);
  if (!utf8) return std::nullopt;
  return std::pair(static_cast<uint64_t>(number), *std::move(utf8));
}

// Returns the kind of a failure in this extension itself, such as in `register`, by the failure's code.
StatusKind KindHere(const Status& status) {
  const StatusCode code = status.code();
  const bool is_refused = code == StatusCode::kNotFound || code == StatusCode::kAlreadyExists ||
                          code == StatusCode::kPermissionDenied || code == StatusCode::kInvalidArgument;
  return status.kind() == StatusKind::kGeneral && is_refused ? StatusKind::kRegistration : status.kind();
}

Ref ExceptionOfKind(StatusKind kind, const Status& status) {
  const Ref text = StrOf(status.message());
  return CallErrors("recall", Ref(text ? Py_BuildValue("(sKO)", StatusKindName(kind),
                                                       static_cast<unsigned long long>(status.exception()), text.get())
                                       : nullptr));
}

}  // namespace

Status TakePythonError(Frames frames) {
  const Ref exception = FetchException();
  if (!exception) return InternalError("a Python function failed without setting an error");
  const char* function = frames == Frames::kClear ? "take_without_variables" : "take";
  const Ref taken = CallErrors(function, Ref(PyTuple_Pack(1, exception.get())));
  auto kept = NumberAndTextOf(taken.get());
  const bool no_memory = PyObject_TypeCheck(exception.get(), reinterpret_cast<PyTypeObject*>(PyExc_MemoryError)) != 0;
  const StatusCode code = no_memory ? StatusCode::kResourceExhausted : StatusCode::kInternal;
  if (kept) return Status::OfException(code, std::move(kept->second), kept->first);
  PyErr_Clear();  // the interpreter is going away, or out of memory: at least name the type
  return {code, std::string("a Python exception of type ") + Py_TYPE(exception.get())->tp_name};
}

Status WithoutException(const Status& failed, const Status& kept) {
  const std::string text = std::string(failed.message()) + "\nBesides, " + std::string(kept.message());
  if (!CallErrors("keep_text", NumberAndText(failed.exception(), text))) PyErr_Clear();
  return failed.WithMessage(text);
}

void LogFailedCall(const internal::Callback& callback, int32_t device_ordinal, const Status& status) {
  if (!internal::LogEnabled(internal::LogLevel::kDebug)) [[likely]]
    return;
  const std::string text = internal::DescribeFailure(callback, device_ordinal, status);
  if (!CallErrors("log_failed_call", NumberAndText(status.exception(), text))) PyErr_Clear();
}

Ref ExceptionOf(const Status& status) { return ExceptionOfKind(status.kind(), status); }

void SetPythonError(const Status& status) {
  const Ref exception = ExceptionOfKind(KindHere(status), status);
  if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

void ThrowIfError(const Status& status) {
  if (status.ok()) return;
  SetPythonError(status);
  nanobind::raise_python_error();
}

}  // namespace callout::python
