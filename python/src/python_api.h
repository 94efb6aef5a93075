// SPDX-License-Identifier: Apache-2.0
//
// The door to CPython and NumPy. Every file of the extension includes this header first.
#pragma once

#ifdef Py_PYTHON_H
#error "include this before anything that includes Python.h"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL callout_numpy_api
#ifndef CALLOUT_IMPORT_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <utility>

namespace callout::python {

/// An owned reference. Requires GIL for everything but moves; gil.h has references that any thread may drop.
class Ref {
 public:
  Ref() = default;
  /// Takes ownership of `object`, which may be null.
  explicit Ref(PyObject* object) : object_(object) {}
  static Ref Borrow(PyObject* object) { return Ref(Py_XNewRef(object)); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) {
      PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
      Py_XDECREF(old);
    }
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace callout::python
