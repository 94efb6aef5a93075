// SPDX-License-Identifier: Apache-2.0
#include "python_text.h"

namespace callout::python {
namespace {

Py_ssize_t SizeOf(std::string_view text) { return static_cast<Py_ssize_t>(text.size()); }

std::string BytesIn(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

}  // namespace

Ref StrOf(std::string_view text) { return Ref(PyUnicode_DecodeUTF8(text.data(), SizeOf(text), "replace")); }

nanobind::object TextObject(std::string_view text) {
  Ref made = StrOf(text);
  if (!made) nanobind::raise_python_error();
  return nanobind::steal(made.release());
}

std::optional<std::string> Utf8Of(PyObject* text) {
  if (PyUnicode_Check(text) == 0) {
    PyErr_Format(PyExc_TypeError, "callout: expected a str, got an object of type %s", Py_TYPE(text)->tp_name);
    return std::nullopt;
  }
  Py_ssize_t size = 0;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size)) [[likely]]
    return std::string(utf8, static_cast<size_t>(size));
  PyErr_Clear();
  const Ref escaped(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  if (!escaped) return std::nullopt;
  return BytesIn(escaped.get());
}

void SetError(PyObject* type, std::string_view text) {
  const Ref argument = StrOf(text);
  if (argument) PyErr_SetObject(type, argument.get());
}

void Throw(PyObject* type, std::string_view text) {
  SetError(type, text);
  nanobind::raise_python_error();
}

std::optional<FilePath> PathOf(PyObject* path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path, &bytes) == 0) return std::nullopt;
  const Ref owned(bytes);
  return FilePath{BytesIn(bytes)};
}

Ref StrOfPath(const FilePath& path) {
  return Ref(PyUnicode_DecodeFSDefaultAndSize(path.bytes.data(), SizeOf(path.bytes)));
}

}  // namespace callout::python
