// SPDX-License-Identifier: Apache-2.0
#include "cuda_buffer.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "arrays.h"
#include "callout/dtype.h"
#include "core/base/thread_annotations.h"
#include "cuda/driver/stream_work.h"
#include "python_text.h"

namespace callout::python {
namespace {

namespace cuda = internal::cuda;

// Orders the streams of one device by an event.
struct Ordering {
  std::unique_ptr<const cuda::Device> device;
  internal::Mutex mutex;  // held from recording the event until the wait for it is queued
  cuda::Event event CALLOUT_GUARDED_BY(mutex);
};

// Returns the device's Ordering, which its first array makes. Leaked: programs run until the process ends.
Result<Ordering*> OrderingOn(int ordinal) {
  static auto* const mutex = new internal::Mutex;
  static auto* const orderings = new std::map<int, Ordering>;
  const internal::MutexLock lock(*mutex);
  Ordering& found = (*orderings)[ordinal];
  if (found.device != nullptr) return &found;
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
  CALLOUT_ASSIGN_OR_RETURN(auto device, cuda::Device::Retain(*driver, ordinal));
  CALLOUT_ASSIGN_OR_RETURN(found.event, CreateEvent(*device));
  found.device = std::move(device);
  return &found;
}

// True while the stream is captured. A consumer must not wait for a captured stream, and need not: during a capture,
// consumers work on that stream itself, so the order is kept.
Result<bool> IsCaptured(const MemorySpace& space) {
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Device* device, RetainedDevice(space));
  return IsCapturing(*device, static_cast<cuda::CUstream>(space.stream));
}

// Makes all later work on `after` run after the work already queued on `before`.
Status Order(cuda::CUstream before, cuda::CUstream after, const MemorySpace& space) {
  CALLOUT_ASSIGN_OR_RETURN(Ordering* const ordering, OrderingOn(space.ordinal));
  const cuda::Device& device = *ordering->device;
  cuda::ContextScope current(device);
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  const internal::MutexLock lock(ordering->mutex);
  return Order(device, ordering->event, before, after);
}

// Returns the typestr of a dtype. A typestr cannot name a dtype that is not NumPy's own, so such dtypes have none. The
// exception is bfloat16, for which JAX's own buffers use raw bytes, two an element.
Ref TypeString(DType dtype) {
  if (dtype == DType::kBfloat16) return Ref(PyUnicode_FromString("<V2"));
  PyArray_Descr* descr = DescrOf(dtype);
  if (descr != nullptr && descr->type_num < NPY_USERDEF) {
    return Ref(PyObject_GetAttrString(reinterpret_cast<PyObject*>(descr), "str"));
  }
  PyErr_Format(PyExc_AttributeError,
               "callout: the CUDA array interface has no dtype %s; DLPack has it (torch.from_dlpack)",
               std::string(NumpyName(dtype)).c_str());
  return Ref();
}

Ref ShapeOf(const callout_buffer& buffer) {
  Ref shape(PyTuple_New(buffer.rank));
  for (uint32_t i = 0; shape && i < buffer.rank; ++i) {
    PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(buffer.dims[i]));
  }
  return shape;
}

}  // namespace

Result<const cuda::Device*> RetainedDevice(const MemorySpace& space) {
  CALLOUT_ASSIGN_OR_RETURN(const Ordering* const ordering, OrderingOn(space.ordinal));
  return ordering->device.get();
}

Result<bool> IsRecorded(const MemorySpace& space) {
  if (space.on_host()) return false;
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
  return IsCapturing(*driver, static_cast<cuda::CUstream>(space.stream), space.ordinal);
}

uintptr_t StreamNumber(void* stream) {
  const auto number = reinterpret_cast<uintptr_t>(stream);
  return number == 0 ? kLegacyStream : number;
}

PyObject* CudaArrayInterface(const callout_buffer& buffer, bool writeable, const MemorySpace& space) {
  const Ref typestr = TypeString(static_cast<DType>(buffer.dtype));
  const Ref shape = ShapeOf(buffer);
  if (!typestr || !shape) return nullptr;
  const Result<bool> captured = IsCaptured(space);
  if (!captured.ok()) {
    SetError(PyExc_RuntimeError, captured.status().message());
    return nullptr;
  }
  const Ref stream(*captured ? Py_NewRef(Py_None) : PyLong_FromSize_t(StreamNumber(space.stream)));
  if (!stream) return nullptr;
  const auto address = buffer.size_bytes == 0 ? 0 : reinterpret_cast<uintptr_t>(buffer.data);
  return Py_BuildValue("{sOsOs(KO)sOsisO}", "shape", shape.get(), "typestr", typestr.get(), "data",
                       static_cast<unsigned long long>(address), writeable ? Py_False : Py_True, "strides", Py_None,
                       "version", 3, "stream", stream.get());
}

bool OrderBehindXla(PyObject* consumer, const MemorySpace& space, uintptr_t* other) {
  *other = 0;
  long long number = kLegacyStream;  // the default for None
  if (consumer != Py_None) {
    number = PyLong_AsLongLong(consumer);
    if (number == -1 && PyErr_Occurred() != nullptr) return false;
    if (number == -1) return true;  // with -1 the consumer takes care of the order
  }
  if (number <= 0) {
    PyErr_Format(PyExc_BufferError,
                 "callout: __dlpack__(stream=%lld): on CUDA a stream is None, -1, 1, 2 or an address", number);
    return false;
  }
  if (static_cast<uintptr_t>(number) == StreamNumber(space.stream)) return true;
  const Status ordered =
      Order(static_cast<cuda::CUstream>(space.stream), reinterpret_cast<cuda::CUstream>(number), space);
  if (!ordered.ok()) SetError(PyExc_BufferError, ordered.message());
  *other = static_cast<uintptr_t>(number);
  return ordered.ok();
}

bool OrderXlaBehind(uintptr_t producer, const MemorySpace& space) {
  if (producer == StreamNumber(space.stream)) return true;
  const Status ordered =
      Order(reinterpret_cast<cuda::CUstream>(producer), static_cast<cuda::CUstream>(space.stream), space);
  if (!ordered.ok()) SetError(PyExc_RuntimeError, ordered.message());
  return ordered.ok();
}

bool StridesAreDense(PyObject* strides, const callout_buffer& like) {
  if (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != static_cast<Py_ssize_t>(like.rank)) return false;
  int64_t stride = BitWidth(static_cast<DType>(like.dtype)) / 8;
  for (uint32_t i = like.rank; i-- > 0;) {
    if (like.dims[i] == 0) return true;
    const int64_t got = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
    if (got == -1) PyErr_Clear();
    if (like.dims[i] != 1 && got != stride) return false;
    stride *= like.dims[i];
  }
  return true;
}

PyObject* RefuseHost(PyObject* error, const char* reader, const MemorySpace& space) {
  return PyErr_Format(
      error,
      "callout: this Buffer is in the memory of CUDA device %d, which %s cannot read. torch.from_dlpack, "
      "cupy.asarray and numba.cuda.as_cuda_array take it without a copy; callout.pure_callback gets "
      "copies in the host's memory",
      static_cast<int>(space.ordinal), reader);
}

}  // namespace callout::python
