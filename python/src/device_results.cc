// SPDX-License-Identifier: Apache-2.0
#include "device_results.h"

#include <memory>
#include <vector>

#include "buffer_object.h"
#include "dlpack.h"
#include "frame/buffer.h"
#include "transport/cuda/device.h"

namespace callout::python {
namespace {

namespace cuda = internal::cuda;

// What is copied, and who keeps it until that has been done.
struct Source {
  const void* data = nullptr;
  bool on_device = false;
  Ref owner;
  std::unique_ptr<char[]> block;
};

bool HasAttribute(PyObject* object, const char* name) {
  const Ref found(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return static_cast<bool>(found);
}

// The device of DLPack; type 0 for what has none.
DLDevice DeviceOf(PyObject* value) {
  const Ref device(PyObject_CallMethod(value, "__dlpack_device__", nullptr));
  int type = 0, id = 0;
  if (!device || !PyTuple_Check(device.get()) || !PyArg_ParseTuple(device.get(), "ii", &type, &id)) PyErr_Clear();
  return {type, id};
}

// Of DLPack: the producer makes our stream wait for its own.
std::string TakeTensor(PyObject* value, const DLDevice& device, const callout_buffer& result, const MemorySpace& space,
                       Source* source) {
  if (device.id != space.ordinal) {
    return "expected an array on CUDA device " + std::to_string(space.ordinal) + ", got one on device " +
           std::to_string(device.id);
  }
  const Ref method(PyObject_GetAttrString(value, "__dlpack__"));
  const Ref keywords(Py_BuildValue("{sn}", "stream", static_cast<Py_ssize_t>(StreamNumber(space.stream))));
  const Ref nothing(PyTuple_New(0));
  if (!method || !keywords || !nothing) return "";
  source->owner = Ref(PyObject_Call(method.get(), nothing.get(), keywords.get()));
  if (!source->owner) return "";
  return DataOfDLPack(source->owner.get(), result, &source->data);
}

// "(2, 3) of '<f4'", for comparisons and for texts.
Ref Described(PyObject* interface) {
  PyObject* shape = PyDict_GetItemString(interface, "shape");
  PyObject* typestr = PyDict_GetItemString(interface, "typestr");
  return Ref(shape == nullptr || typestr == nullptr ? nullptr : PyUnicode_FromFormat("%R of %R", shape, typestr));
}

// Of the CUDA array interface, https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html.
std::string TakeInterface(PyObject* value, const callout_buffer& result, const MemorySpace& space, Source* source) {
  source->owner = Ref(PyObject_GetAttrString(value, "__cuda_array_interface__"));
  const Ref wanted(CudaArrayInterface(result, true, space));
  if (!source->owner || !wanted) return "";
  if (!PyDict_Check(source->owner.get())) return "a __cuda_array_interface__ that is no dict";
  const Ref expected = Described(wanted.get()), got = Described(source->owner.get());
  PyObject* place = PyDict_GetItemString(source->owner.get(), "data");
  unsigned long long address = 0;
  int read_only = 0;
  if (!expected || !got || place == nullptr || !PyArg_ParseTuple(place, "Kp", &address, &read_only)) {
    PyErr_Clear();
    return "a __cuda_array_interface__ without shape, typestr or data";
  }
  if (PyUnicode_Compare(expected.get(), got.get()) != 0) {
    return std::string("expected ") + PyUnicode_AsUTF8(expected.get()) + ", got " + PyUnicode_AsUTF8(got.get());
  }
  PyObject* strides = PyDict_GetItemString(source->owner.get(), "strides");
  if (strides != nullptr && strides != Py_None && !StridesAreDense(strides, result)) {
    return "expected an array that is row-major and dense";
  }
  PyObject* stream = PyDict_GetItemString(source->owner.get(), "stream");
  if (stream != nullptr && stream != Py_None && !OrderXlaBehind(stream, space)) return "";
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
  if (device.type == 0 && HasAttribute(value, "__cuda_array_interface__")) {
    return TakeInterface(value, result, space, source);
  }
  source->on_device = false;
  return TakeFromHost(value, result, canonicalize, source);
}

Status Copy(const std::vector<Source>& sources, const std::vector<callout_buffer>& results, const MemorySpace& space) {
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
  CALLOUT_ASSIGN_OR_RETURN(const auto device, cuda::Device::Retain(*driver, space.ordinal));
  const auto stream = static_cast<cuda::CUstream>(space.stream);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (results[i].size_bytes == 0) continue;
    const auto to = reinterpret_cast<cuda::CUdeviceptr>(results[i].data);
    const size_t bytes = results[i].size_bytes;
    if (sources[i].on_device) {
      const auto from = reinterpret_cast<cuda::CUdeviceptr>(sources[i].data);
      CALLOUT_RETURN_IF_ERROR(
          device->Check(driver->MemcpyDtoDAsync(to, from, bytes, stream), "cuMemcpyDtoDAsync", "a result"));
    } else {
      CALLOUT_RETURN_IF_ERROR(
          device->Check(driver->MemcpyHtoDAsync(to, sources[i].data, bytes, stream), "cuMemcpyHtoDAsync", "a result"));
    }
  }
  return device->Check(driver->StreamSynchronize(stream), "cuStreamSynchronize", "results");
}

}  // namespace

std::string StoreOnDevice(PyObject* values, PyObject* results, Canonicalize canonicalize) {
  const Py_ssize_t count = PyTuple_GET_SIZE(results);
  std::vector<Source> sources(static_cast<size_t>(count));
  std::vector<callout_buffer> buffers;
  MemorySpace space;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const callout_buffer* buffer = MemoryOf(PyTuple_GET_ITEM(results, i), &space);
    if (buffer == nullptr) return "";
    buffers.push_back(*buffer);
    std::string misfit =
        Take(PyList_GET_ITEM(values, i), *buffer, space, canonicalize, &sources[static_cast<size_t>(i)]);
    if (!misfit.empty()) return "result " + std::to_string(i) + ": " + misfit;
    if (PyErr_Occurred() != nullptr) return "";
  }
  if (count == 0) return "";
  Status copied;
  PyThreadState* released = PyEval_SaveThread();
  copied = Copy(sources, buffers, space);
  PyEval_RestoreThread(released);
  if (!copied.ok()) PyErr_SetString(PyExc_RuntimeError, copied.c_message());
  return "";
}

}  // namespace callout::python
