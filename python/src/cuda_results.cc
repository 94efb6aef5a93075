// SPDX-License-Identifier: Apache-2.0
#include "cuda_results.h"

#include <memory>
#include <vector>

#include "buffer_object.h"
#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "cuda/driver/stream_work.h"
#include "dlpack.h"
#include "python_text.h"

namespace callout::python {
namespace {

namespace cuda = internal::cuda;

// The source of one copy, and the owner that keeps the memory until the copy has run.
struct Source {
  const void* data = nullptr;
  bool on_device = false;
  Ref owner;
  std::unique_ptr<char[]> block;
};

// Clears the current error unless it is a KeyboardInterrupt or another exception outside of Exception.
void ClearException() {
  if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) != 0) PyErr_Clear();
}

bool HasAttribute(PyObject* object, const char* name) {
  const Ref found(PyObject_GetAttrString(object, name));
  ClearException();
  return static_cast<bool>(found);
}

// Returns the device of __dlpack_device__; type 0 for an object without one.
DLDevice DeviceOf(PyObject* value) {
  const Ref device(PyObject_CallMethod(value, "__dlpack_device__", nullptr));
  int type = 0, id = 0;
  if (device && PyTuple_Check(device.get())) (void)PyArg_ParseTuple(device.get(), "ii", &type, &id);
  ClearException();
  return {type, id};
}

// Takes an array through DLPack: the producer makes our stream wait for its own.
std::string TakeTensor(PyObject* value, const DLDevice& device, const callout_buffer& result, const MemorySpace& space,
                       Source* source) {
  if (device.id != space.ordinal) {
    return internal::Cat("expected an array on CUDA device ", space.ordinal, ", got one on device ", device.id);
  }
  const Ref method(PyObject_GetAttrString(value, "__dlpack__"));
  const Ref keywords(Py_BuildValue("{sn}", "stream", static_cast<Py_ssize_t>(StreamNumber(space.stream))));
  const Ref nothing(PyTuple_New(0));
  if (!method || !keywords || !nothing) return "";
  source->owner = Ref(PyObject_Call(method.get(), nothing.get(), keywords.get()));
  if (!source->owner) return "";
  return DataOfDLPack(source->owner.get(), result, &source->data);
}

// Returns an item of a CUDA array interface; null if the item is None or missing. The result owns its reference,
// because a later access to an item may run code of the user's that removes this item from the dict.
Ref PartOf(const Ref& interface, const char* key) {
  PyObject* part = PyDict_GetItemString(interface.get(), key);
  return part == Py_None ? Ref() : Ref::Borrow(part);
}

// Returns, for example, "(2, 3) of '<f4'".
std::string Described(PyObject* shape, PyObject* typestr) {
  const Ref text(PyUnicode_FromFormat("%R of %R", shape, typestr));
  return (text ? Utf8Of(text.get()) : std::nullopt).value_or("");
}

// Returns "" if the interface has this shape and dtype and is dense. May set a Python error.
std::string Misfit(const Ref& interface, const Ref& wanted, const callout_buffer& result) {
  const Ref extents = PartOf(interface, "shape");
  const Ref shape(extents ? PySequence_Tuple(extents.get()) : nullptr);
  const Ref typestr = PartOf(interface, "typestr");
  if (!shape || !typestr) {
    ClearException();
    return "a __cuda_array_interface__ without shape or typestr";
  }
  const Ref wanted_shape = PartOf(wanted, "shape");
  const Ref wanted_type = PartOf(wanted, "typestr");
  const int same_shape = PyObject_RichCompareBool(shape.get(), wanted_shape.get(), Py_EQ);
  const int same_type = same_shape < 0 ? -1 : PyObject_RichCompareBool(typestr.get(), wanted_type.get(), Py_EQ);
  if (same_shape < 0 || same_type < 0) return "";
  if (same_shape == 0 || same_type == 0) {
    return "expected " + Described(wanted_shape.get(), wanted_type.get()) + ", got " +
           Described(shape.get(), typestr.get());
  }
  if (PartOf(interface, "mask")) return "expected an array without a mask";
  const Ref strides = PartOf(interface, "strides");
  return !strides || StridesAreDense(strides.get(), result) ? "" : "expected an array that is row-major and dense";
}

// Takes an array through the CUDA array interface, https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html.
std::string TakeInterface(PyObject* value, const callout_buffer& result, const MemorySpace& space, Source* source) {
  source->owner = Ref(PyObject_GetAttrString(value, "__cuda_array_interface__"));
  const Ref wanted(CudaArrayInterface(result, true, space));
  if (!source->owner || !wanted) return "";
  if (!PyDict_Check(source->owner.get())) return "a __cuda_array_interface__ that is no dict";
  std::string misfit = Misfit(source->owner, wanted, result);
  if (!misfit.empty() || PyErr_Occurred() != nullptr) return misfit;
  const Ref place = PartOf(source->owner, "data");
  unsigned long long address = 0;
  int read_only = 0;
  if (!place || !PyTuple_Check(place.get()) || PyArg_ParseTuple(place.get(), "Kp", &address, &read_only) == 0) {
    ClearException();
    return "a __cuda_array_interface__ without data";
  }
  // Libraries whose arrays name no stream work on the legacy default stream.
  const Ref stream = PartOf(source->owner, "stream");
  const size_t number = stream ? PyLong_AsSize_t(stream.get()) : kLegacyStream;
  if (PyErr_Occurred() != nullptr || !OrderXlaBehind(number, space)) return "";
  source->data = reinterpret_cast<const void*>(address);
  return "";
}

std::string TakeFromHost(PyObject* value, const callout_buffer& result, Canonicalize canonicalize, Source* source) {
  source->block = std::make_unique<char[]>(result.size_bytes);
  callout_buffer copy = result;
  copy.data = source->block.get();
  source->data = copy.data;
  return StoreResult(value, copy, canonicalize);
}

std::string Take(PyObject* value, const callout_buffer& result, const MemorySpace& space, Canonicalize canonicalize,
                 Source* source) {
  const DLDevice device = DeviceOf(value);
  source->on_device = true;
  if (device.type == kDLCuda) return TakeTensor(value, device, result, space, source);
  const bool has_interface = device.type != kDLCpu && HasAttribute(value, "__cuda_array_interface__");
  if (PyErr_Occurred() != nullptr) return "";
  if (has_interface) return TakeInterface(value, result, space, source);
  source->on_device = false;
  return TakeFromHost(value, result, canonicalize, source);
}

Status QueueCopy(const cuda::Device& device, const Source& source, const callout_buffer& result,
                 cuda::CUstream stream) {
  if (result.size_bytes == 0) return OkStatus();
  const cuda::CUdeviceptr to = cuda::AddressOf(result.data);
  if (!source.on_device) return CopyToDevice(device, stream, to, source.data, result.size_bytes, "a result");
  return CopyOnDevice(device, stream, to, cuda::AddressOf(source.data), result.size_bytes, "a result");
}

// Waits for the copies already queued even if a later one could not be queued.
Status Copy(const std::vector<Source>& sources, const std::vector<callout_buffer>& results, const MemorySpace& space) {
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Device* device, RetainedDevice(space));
  cuda::ContextScope current(*device);
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  const auto stream = static_cast<cuda::CUstream>(space.stream);
  Status status;
  for (size_t i = 0; status.ok() && i < sources.size(); ++i) {
    status = QueueCopy(*device, sources[i], results[i], stream);
  }
  Status waited = Synchronize(*device, stream, "results");
  return status.ok() ? std::move(waited) : std::move(status);
}

// Orders XLA's stream behind the consumers of all Buffers in the tuple. False with a Python error.
bool OrderBehindUsers(PyObject* buffers) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(buffers); ++i) {
    if (!OrderXlaBehindConsumers(PyTuple_GET_ITEM(buffers, i))) return false;
  }
  return true;
}

}  // namespace

std::string StoreOnDevice(PyObject* values, PyObject* results, PyObject* arguments, Canonicalize canonicalize) {
  const Py_ssize_t count = PyTuple_GET_SIZE(results);
  std::vector<Source> sources(static_cast<size_t>(count));
  std::vector<callout_buffer> buffers;
  MemorySpace space;
  const Ref items(PyList_AsTuple(values));  // a copy, because code that one item runs may change the list
  if (!items) return "";
  for (Py_ssize_t i = 0; i < count; ++i) {
    const callout_buffer* buffer = MemoryOf(PyTuple_GET_ITEM(results, i), &space);
    if (buffer == nullptr) return "";
    buffers.push_back(*buffer);
    Source& source = sources[static_cast<size_t>(i)];
    const std::string misfit = Take(PyTuple_GET_ITEM(items.get(), i), *buffer, space, canonicalize, &source);
    if (PyErr_Occurred() != nullptr) return "";
    if (!misfit.empty()) return internal::Cat("result ", i, ": ", misfit);
  }
  if (!OrderBehindUsers(arguments) || count == 0) return "";
  PyThreadState* released = PyEval_SaveThread();
  const Status copied = Copy(sources, buffers, space);
  PyEval_RestoreThread(released);
  if (!copied.ok()) SetError(PyExc_RuntimeError, copied.message());
  return "";
}

}  // namespace callout::python
