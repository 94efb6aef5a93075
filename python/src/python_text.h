// SPDX-License-Identifier: Apache-2.0
//
// Texts and paths between C++, where they are bytes, and Python, where a str may not be UTF-8. All of them are
// converted by the functions of this header: nanobind's own conversion of std::string raises errors for bytes that are
// not UTF-8.
#pragma once

#include "python_api.h"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace callout::python {

/// Returns a text of the core, which may hold any bytes, as a str with U+FFFD for each byte that is not UTF-8. Null
/// with a Python error if there is no memory. Requires GIL.
Ref StrOf(std::string_view text);

/// Like StrOf, but throws nanobind's python_error instead of returning null. Requires GIL.
nanobind::object TextObject(std::string_view text);

/// Returns a str as UTF-8. A lone surrogate is written as Python escapes it: "\udcff". Empty with a Python error for an
/// object that is not a str. Requires GIL.
std::optional<std::string> Utf8Of(PyObject* text);

/// Sets a Python error of this type. Requires GIL.
void SetError(PyObject* type, std::string_view text);

/// Throws nanobind's python_error with an error of this type. Requires GIL.
[[noreturn]] void Throw(PyObject* type, std::string_view text);

/// The path of a file, or a text that contains one, in the operating system's bytes: os.fsencode of Python's str, and
/// os.fsdecode for the way back.
struct FilePath {
  std::string bytes;
};

/// Returns os.fsencode(path) of a str, of bytes or of a path-like object. Empty with a Python error. Requires GIL.
std::optional<FilePath> PathOf(PyObject* path);

/// Returns os.fsdecode(path). Null with a Python error. Requires GIL.
Ref StrOfPath(const FilePath& path);

}  // namespace callout::python

namespace nanobind::detail {

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    std::optional<std::string> text = callout::python::Utf8Of(source.ptr());
    if (!text) PyErr_Clear();
    if (text) value = std::move(*text);
    return text.has_value();
  }

  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return callout::python::StrOf(text).release();
  }
};

template <>
struct type_caster<callout::python::FilePath> {
  NB_TYPE_CASTER(callout::python::FilePath, const_name("str"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    std::optional<callout::python::FilePath> path = callout::python::PathOf(source.ptr());
    if (!path) PyErr_Clear();
    if (path) value = std::move(*path);
    return path.has_value();
  }

  static handle from_cpp(const callout::python::FilePath& path, rv_policy, cleanup_list*) noexcept {
    return callout::python::StrOfPath(path).release();
  }
};

}  // namespace nanobind::detail
