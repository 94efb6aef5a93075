// SPDX-License-Identifier: Apache-2.0
#include "calling.h"

#include "function_span.h"
#include "unwinding.h"

namespace callout::python {

Ref CallPython(PyObject* function, PyObject* const* arguments, size_t count, PyObject* keywords) {
  return WithoutUnwinding(
      [&] { return Ref(PyObject_Vectorcall(function, arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords)); });
}

Ref CallPython(PyObject* function, PyObject* argument) {
  return WithoutUnwinding([&] { return Ref(PyObject_CallOneArg(function, argument)); });
}

Ref CallWithStructure(PyObject* function, PyObject* structure) {
  PyObject *args, *kwargs;
  if (!PyArg_ParseTuple(structure, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return Ref();
  return WithoutUnwinding([&] { return Ref(PyObject_Call(function, args, kwargs)); });
}

Ref CallUser(const std::string& label, PyObject* function, PyObject* const* arguments, size_t count,
             PyObject* keywords) {
  const FunctionSpan span(label);
  return CallPython(function, arguments, count, keywords);
}

Ref CallUserWithStructure(const std::string& label, PyObject* function, PyObject* structure) {
  const FunctionSpan span(label);
  return CallWithStructure(function, structure);
}

Ref MakeTuple(PyObject* const* items, size_t count) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  }
  return tuple;
}

}  // namespace callout::python
