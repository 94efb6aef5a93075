// SPDX-License-Identifier: Apache-2.0
#include "execution_context.h"

#include <structmember.h>

#include <cstddef>

namespace callout::python {
namespace {

PyTypeObject* g_type = nullptr;

struct ContextObject {
  PyObject_HEAD int32_t device_ordinal;
  int64_t run_id;
  MemorySpace space;
};

PyObject* Stage(PyObject*, void*) {
  const Ref module(PyImport_ImportModule("callout.buffer_callback"));
  const Ref stages(module ? PyObject_GetAttrString(module.get(), "ExecutionStage") : nullptr);
  return stages ? PyObject_GetAttrString(stages.get(), "EXECUTE") : nullptr;
}

// On a CPU, raises the exception that JAX's own ExecutionContext raises.
PyObject* Stream(PyObject* object, void*) {
  const MemorySpace& space = reinterpret_cast<ContextObject*>(object)->space;
  if (!space.on_host()) return PyLong_FromVoidPtr(space.stream);
  const Ref errors(PyImport_ImportModule("jax.errors"));
  const Ref type(errors ? PyObject_GetAttrString(errors.get(), "JaxRuntimeError") : nullptr);
  if (type) PyErr_SetString(type.get(), "UNIMPLEMENTED: XLA FFI GPU context is not available: this call is on a CPU");
  return nullptr;
}

void DeallocContext(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"device_ordinal", T_INT, offsetof(ContextObject, device_ordinal), READONLY, "On CPU the id of the jax.Device."},
    {"run_id", T_LONGLONG, offsetof(ContextObject, run_id), READONLY, "The same for all devices of one launch."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef properties[] = {
    {"stage", &Stage, nullptr, "An ExecutionStage: EXECUTE, the only one in which callbacks are called.", nullptr},
    {"stream", &Stream, nullptr, "The stream that XLA computes on, a CUstream. Raises JaxRuntimeError on a CPU.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("What a buffer callback learns of its call.")},
                       {Py_tp_members, members},
                       {Py_tp_getset, properties},
                       {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocContext)},
                       {0, nullptr}};

PyType_Spec spec = {"callout.buffer_callback.ExecutionContext", sizeof(ContextObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

PyObject* InitExecutionContext() {
  g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));  // never released
  return reinterpret_cast<PyObject*>(g_type);
}

PyObject* NewExecutionContext(const MemorySpace& space, int64_t run_id) {
  auto* self = reinterpret_cast<ContextObject*>(g_type->tp_alloc(g_type, 0));
  if (self == nullptr) return nullptr;
  self->device_ordinal = space.ordinal;
  self->space = space;
  self->run_id = run_id;
  return reinterpret_cast<PyObject*>(self);
}

}  // namespace callout::python
