// SPDX-License-Identifier: Apache-2.0
#include "buffer_object.h"

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "arrays.h"
#include "buffer_protocol.h"
#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "dlpack.h"

namespace callout::python {
namespace {

PyTypeObject* g_buffer_type = nullptr;

struct BufferObject {
  PyObject_HEAD callout_buffer view;  // borrowed; data and dims are null once the call is over
  bool alive;
  bool writeable;
  bool borrowed;  // by the CUDA array interface: its consumers refer to this object
  MemorySpace space;
  int64_t exports;                   // through the buffer protocol
  Py_ssize_t* extents;               // strides and shape of the buffer protocol's views
  std::shared_ptr<Leases> leases;    // of arrays and tensors; made with the first of them
  std::vector<uintptr_t> consumers;  // streams that work on the memory, numbered as in DLPack
};

BufferObject* Self(PyObject* object) { return reinterpret_cast<BufferObject*>(object); }

// Returns null with a Python error once the call is over.
BufferObject* Alive(PyObject* object) {
  BufferObject* self = Self(object);
  if (self->alive) return self;
  PyErr_SetString(PyExc_ValueError,
                  "callout: this Buffer belongs to a call that is over; copy what is to be kept (numpy.array)");
  return nullptr;
}

const std::shared_ptr<Leases>& LeasesOf(BufferObject* self) {
  if (self->leases == nullptr) self->leases = std::make_shared<Leases>(0);
  return self->leases;
}

void DropLease(PyObject* capsule) {
  const std::unique_ptr<std::shared_ptr<Leases>> lease(
      static_cast<std::shared_ptr<Leases>*>(PyCapsule_GetPointer(capsule, nullptr)));
  (*lease)->fetch_sub(1, std::memory_order_release);
}

// Returns an array over the memory. The array's base counts as a lease, and all views of the array refer to that base.
PyObject* ViewOf(BufferObject* self) {
  Ref array(self->writeable ? WriteableViewAsArray(self->view) : ViewAsArray(self->view));
  if (!array) return nullptr;
  auto lease = std::make_unique<std::shared_ptr<Leases>>(LeasesOf(self));
  Ref capsule(PyCapsule_New(lease.get(), nullptr, &DropLease));
  if (!capsule) return nullptr;
  (*lease)->fetch_add(1, std::memory_order_relaxed);
  (void)lease.release();  // owned by the capsule
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), capsule.release()) < 0) return nullptr;
  return array.release();
}

// Returns null with a Python error if the call is over or the memory is a device's.
BufferObject* OnHost(PyObject* object, PyObject* error, const char* reader) {
  BufferObject* self = Alive(object);
  if (self == nullptr || self->space.on_host()) return self;
  RefuseHost(error, reader, self->space);
  return nullptr;
}

PyObject* Array(PyObject* object, PyObject* args, PyObject* kwargs) {
  PyObject *dtype = Py_None, *copy = Py_None;
  static const char* const names[] = {"dtype", "copy", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", const_cast<char**>(names), &dtype, &copy)) return nullptr;
  BufferObject* self = OnHost(object, PyExc_TypeError, "NumPy");
  if (self == nullptr) return nullptr;
  if (copy == Py_True) {
    Ref owned(CopyToArray(self->view));
    return owned && dtype != Py_None ? PyObject_CallMethod(owned.get(), "astype", "O", dtype) : owned.release();
  }
  Ref array(ViewOf(self));
  if (!array || dtype == Py_None) return array.release();
  PyArray_Descr* wanted = nullptr;
  if (PyArray_DescrConverter(dtype, &wanted) == 0) return nullptr;
  const bool same = PyArray_EquivTypes(wanted, PyArray_DESCR(reinterpret_cast<PyArrayObject*>(array.get()))) != 0;
  Py_DECREF(wanted);
  if (same) return array.release();
  if (copy == Py_False) {
    PyErr_SetString(PyExc_ValueError, "callout: a Buffer of another dtype cannot be made without a copy");
    return nullptr;
  }
  return PyObject_CallMethod(array.get(), "astype", "O", dtype);
}

PyObject* Shape(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  if (self == nullptr) return nullptr;
  Ref shape(PyTuple_New(self->view.rank));
  for (uint32_t i = 0; shape && i < self->view.rank; ++i) {
    PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(self->view.dims[i]));
  }
  return shape.release();
}

PyObject* Dtype(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  if (self == nullptr) return nullptr;
  return Py_XNewRef(reinterpret_cast<PyObject*>(DescrOf(static_cast<DType>(self->view.dtype))));
}

PyObject* Ndim(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  return self == nullptr ? nullptr : PyLong_FromUnsignedLong(self->view.rank);
}

PyObject* Size(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  return self == nullptr ? nullptr : PyLong_FromLongLong(internal::ElementCount(self->view));
}

PyObject* Nbytes(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  return self == nullptr ? nullptr : PyLong_FromUnsignedLongLong(self->view.size_bytes);
}

PyObject* Writeable(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  return self == nullptr ? nullptr : PyBool_FromLong(self->writeable ? 1 : 0);
}

Py_ssize_t Length(PyObject* object) {
  BufferObject* self = Alive(object);
  if (self == nullptr) return -1;
  if (self->view.rank > 0) return static_cast<Py_ssize_t>(self->view.dims[0]);
  PyErr_SetString(PyExc_TypeError, "callout: len() of a Buffer of a scalar");
  return -1;
}

PyObject* Repr(PyObject* object) {
  BufferObject* self = Self(object);
  if (!self->alive) return PyUnicode_FromString("<callout Buffer of a call that is over>");
  const std::string where = self->space.on_host() ? "" : internal::Cat(" on CUDA device ", self->space.ordinal);
  return PyUnicode_FromFormat("<callout Buffer %s%s%s>", internal::ShapeString(self->view).c_str(), where.c_str(),
                              self->writeable ? "" : ", read-only");
}

// Parses `max_version` of __dlpack__: None, or the version that the consumer knows.
bool ParseVersion(PyObject* version, bool* versioned) {
  if (version == Py_None) return true;
  int major = 0, minor = 0;
  if (!PyArg_ParseTuple(version, "ii", &major, &minor)) return false;
  *versioned = major >= 1;
  return true;
}

DLDevice DeviceOf(const BufferObject* self) {
  return self->space.on_host() ? DLDevice{kDLCpu, 0} : DLDevice{kDLCuda, self->space.ordinal};
}

// Parses `dl_device` of __dlpack__: None, or the device on which the consumer wants the tensor.
bool ParseDevice(PyObject* wanted, const DLDevice& device) {
  if (wanted == Py_None) return true;
  int type = 0, id = 0;
  if (!PyArg_ParseTuple(wanted, "ii", &type, &id)) return false;
  if (type == device.type && (id == device.id || type == kDLCpu)) return true;
  if (device.type == kDLCpu) {
    PyErr_SetString(PyExc_BufferError, "callout: this Buffer is in the CPU's memory");
  } else {
    PyErr_Format(PyExc_BufferError,
                 "callout: this Buffer is in the memory of CUDA device %d, and is not copied to device (%d, %d)",
                 static_cast<int>(device.id), type, id);
  }
  return false;
}

PyObject* DLPack(PyObject* object, PyObject* args, PyObject* kwargs) {
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  static const char* const names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", const_cast<char**>(names), &stream, &version, &device,
                                   &copy)) {
    return nullptr;
  }
  BufferObject* self = Alive(object);
  if (self == nullptr) return nullptr;
  DLPackRequest request = {.device = DeviceOf(self), .copy = copy == Py_True, .writeable = self->writeable};
  if (!ParseVersion(version, &request.versioned) || !ParseDevice(device, request.device)) return nullptr;
  if (!self->space.on_host()) {
    if (request.copy) {
      PyErr_SetString(PyExc_BufferError, "callout: a Buffer on a CUDA device is not copied; copy what is made of it");
      return nullptr;
    }
    uintptr_t consumer = 0;
    if (!OrderBehindXla(stream, self->space, &consumer)) return nullptr;
    if (consumer != 0) self->consumers.push_back(consumer);
  }
  return ToDLPack(self->view, request, LeasesOf(self));
}

PyObject* DLPackDevice(PyObject* object, PyObject*) {
  const BufferObject* self = Alive(object);
  if (self == nullptr) return nullptr;
  const DLDevice device = DeviceOf(self);
  return Py_BuildValue("(ii)", static_cast<int>(device.type), static_cast<int>(device.id));
}

// Consumers probe for the CUDA array interface by asking for the attribute.
PyObject* Interface(PyObject* object, void*) {
  BufferObject* self = Alive(object);
  if (self == nullptr) return nullptr;
  if (self->space.on_host()) {
    PyErr_SetString(PyExc_AttributeError, "callout: this Buffer is in the CPU's memory: no __cuda_array_interface__");
    return nullptr;
  }
  PyObject* interface = CudaArrayInterface(self->view, self->writeable, self->space);
  self->borrowed |= interface != nullptr;
  return interface;
}

int GetBuffer(PyObject* object, Py_buffer* out, int flags) {
  out->obj = nullptr;
  BufferObject* self = OnHost(object, PyExc_BufferError, "the host");
  if (self == nullptr || !FillPyBuffer(self->view, self->writeable, flags, &self->extents, out)) return -1;
  out->obj = Py_NewRef(object);
  ++self->exports;
  return 0;
}

void ReleaseBuffer(PyObject* object, Py_buffer*) { --Self(object)->exports; }

void Dealloc(PyObject* object) {
  BufferObject* self = Self(object);
  PyTypeObject* type = Py_TYPE(object);
  PyMem_Free(self->extents);
  std::destroy_at(&self->leases);
  std::destroy_at(&self->consumers);
  type->tp_free(object);
  Py_DECREF(type);
}

// Locks the Buffer around kUse: without a GIL, other threads may use the Buffer, or its call may end.
template <auto kUse>
struct Alone;
template <typename Answer, typename... Arguments, Answer (*kUse)(PyObject*, Arguments...)>
struct Alone<kUse> {
  static Answer Use(PyObject* object, Arguments... arguments) {
    const nanobind::ft_object_guard alone(object);
    return kUse(object, arguments...);
  }
};

bool IsKept(PyObject* buffer) {
  const BufferObject* self = Self(buffer);
  if (self->borrowed && Py_REFCNT(buffer) > 1) return true;
  return self->exports > 0 || (self->leases != nullptr && self->leases->load(std::memory_order_acquire) > 0);
}

PyMethodDef buffer_methods[] = {
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Alone<&Array>::Use)),
     METH_VARARGS | METH_KEYWORDS,
     "An array over the memory, read-only for an argument. It must not outlive the call."},
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Alone<&DLPack>::Use)),
     METH_VARARGS | METH_KEYWORDS, "The memory for other libraries. What they make of it must not outlive the call."},
    {"__dlpack_device__", &Alone<&DLPackDevice>::Use, METH_NOARGS, "(1, 0): the CPU. (2, n): CUDA device n."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef buffer_properties[] = {
    {"shape", &Alone<&Shape>::Use, nullptr, "Extents.", nullptr},
    {"dtype", &Alone<&Dtype>::Use, nullptr, "The NumPy dtype.", nullptr},
    {"ndim", &Alone<&Ndim>::Use, nullptr, "Number of dimensions.", nullptr},
    {"size", &Alone<&Size>::Use, nullptr, "Number of elements.", nullptr},
    {"nbytes", &Alone<&Nbytes>::Use, nullptr, "Size in bytes.", nullptr},
    {"writeable", &Alone<&Writeable>::Use, nullptr, "True for results, False for arguments.", nullptr},
    {"__cuda_array_interface__", &Alone<&Interface>::Use, nullptr, "For libraries for GPUs; on CUDA.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot buffer_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("Memory of XLA's that a buffer callback may use while it runs. It is row-major and dense.")},
    {Py_tp_methods, buffer_methods},
    {Py_tp_getset, buffer_properties},
    {Py_tp_repr, reinterpret_cast<void*>(&Alone<&Repr>::Use)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&Dealloc)},
    {Py_sq_length, reinterpret_cast<void*>(&Alone<&Length>::Use)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(&Alone<&GetBuffer>::Use)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&Alone<&ReleaseBuffer>::Use)},
    {0, nullptr}};

PyType_Spec buffer_spec = {"callout.buffer_callback.Buffer", sizeof(BufferObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                           buffer_slots};

}  // namespace

PyObject* InitBuffers() {
  g_buffer_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&buffer_spec));  // never released
  return reinterpret_cast<PyObject*>(g_buffer_type);
}

PyObject* NewBuffer(const callout_buffer& buffer, bool writeable, const MemorySpace& space) {
  auto* self = reinterpret_cast<BufferObject*>(g_buffer_type->tp_alloc(g_buffer_type, 0));
  if (self == nullptr) return nullptr;
  self->view = buffer;
  self->alive = true;
  self->writeable = writeable;
  self->space = space;
  new (&self->leases) std::shared_ptr<Leases>();
  new (&self->consumers) std::vector<uintptr_t>();
  return reinterpret_cast<PyObject*>(self);
}

const callout_buffer* MemoryOf(PyObject* buffer, MemorySpace* space) {
  if (Py_TYPE(buffer) != g_buffer_type) {
    PyErr_Format(PyExc_TypeError, "callout: expected a Buffer, got an object of type %s", Py_TYPE(buffer)->tp_name);
    return nullptr;
  }
  const nanobind::ft_object_guard alone(buffer);
  const BufferObject* self = Alive(buffer);
  if (self == nullptr) return nullptr;
  *space = self->space;
  return &self->view;
}

bool OrderXlaBehindConsumers(PyObject* buffer) {
  const nanobind::ft_object_guard alone(buffer);
  BufferObject* self = Alive(buffer);
  if (self == nullptr) return false;
  for (const uintptr_t consumer : self->consumers) {
    if (!OrderXlaBehind(consumer, self->space)) return false;
  }
  self->consumers.clear();
  return true;
}

bool BufferIsKept(PyObject* buffer) {
  const nanobind::ft_object_guard alone(buffer);
  return IsKept(buffer);
}

bool EndBuffer(PyObject* buffer) {
  const nanobind::ft_object_guard alone(buffer);
  Self(buffer)->alive = false;
  Self(buffer)->view = {};
  return !IsKept(buffer);
}

}  // namespace callout::python
