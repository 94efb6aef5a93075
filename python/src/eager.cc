// SPDX-License-Identifier: Apache-2.0
//
// Calls outside of a compiled program, and taps that run in the caller's thread, with the same callbacks and checks as
// in programs, over NumPy arrays.
#include "module_bindings.h"

#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

#include "array_buffers.h"
#include "callout/elements.h"
#include "core/base/ticks.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/probe.h"
#include "core/delivery/delivery.h"
#include "errors.h"
#include "gil.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Fresh arrays for the results. The callback writes sub-byte results packed, and Finish unpacks them.
class ResultArrays {
 public:
  explicit ResultArrays(const nb::sequence& specs) {
    for (nb::handle spec : specs) {
      arrays_.push_back(nb::steal(Empty(nb::cast<nb::tuple>(spec).ptr())));
      auto* array = reinterpret_cast<PyArrayObject*>(arrays_.back().ptr());
      if (array == nullptr) nb::raise_python_error();
      const DType dtype = DTypeOf(PyArray_DESCR(array));
      if (dtype == DType::kInvalid) throw nb::type_error("callout: a result of a dtype that XLA does not have");
      buffers_.push_back({static_cast<uint32_t>(dtype), static_cast<uint32_t>(PyArray_NDIM(array)), PyArray_DATA(array),
                          reinterpret_cast<const int64_t*>(PyArray_DIMS(array)),
                          PackedBytes(dtype, static_cast<int64_t>(PyArray_SIZE(array)))});
    }
  }
  const callout_buffer* data() const { return buffers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(buffers_.size()); }

  nb::list Finish() {
    nb::list out;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      // The packed elements lie at the front of an allocation that has one byte for each element.
      if (IsSubByte(static_cast<DType>(buffers_[i].dtype))) arrays_[i] = nb::steal(CopyToArray(buffers_[i]));
      if (!arrays_[i].is_valid()) nb::raise_python_error();
      out.append(arrays_[i]);
    }
    return out;
  }

 private:
  // Returns an empty array of (shape, dtype). Null with a Python error.
  static PyObject* Empty(PyObject* spec) {
    PyArray_Dims shape = {nullptr, 0};
    PyArray_Descr* descr = nullptr;
    PyObject* array = nullptr;
    if (PyArg_ParseTuple(spec, "O&O&", &PyArray_IntpConverter, &shape, &PyArray_DescrConverter, &descr) != 0) {
      array = PyArray_Empty(shape.len, shape.ptr, descr, 0);  // steals the reference to `descr`
    }
    PyDimMem_FREE(shape.ptr);
    return array;
  }

  std::vector<nb::object> arrays_;
  std::vector<callout_buffer> buffers_;
};

nb::list CallEager(const CallbackHandle& handle, const nb::sequence& arrays, const nb::sequence& result_specs,
                   int32_t device_ordinal, bool ordered) {
  const std::shared_ptr<internal::Callback> callback = handle.callback;
  const ArrayBuffers args(arrays);
  ResultArrays results(result_specs);
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = args.size();
  call.num_results = results.size();
  call.args = args.data();
  call.results = results.data();
  call.device_ordinal = device_ordinal;
  if (ordered) {
    const GilRelease release;
    internal::Delivery::Get().DrainDevice(*callback, device_ordinal, call.run_id);
  }
  Status status;
  if (callback->worker() == internal::Worker::kNative) {
    const GilRelease release;
    status = internal::Invoke(*callback, call);
  } else {
    status = internal::Invoke(*callback, call);
  }
  ThrowIfError(status);
  return results.Finish();
}

// Runs a tap in the caller's thread, after the records that are queued, instead of on a delivery thread.
void TapInline(const CallbackHandle& handle, const nb::sequence& arrays, const std::string& label,
               const std::vector<std::string>& leaf_names, int32_t device_ordinal) {
  const std::shared_ptr<internal::Callback> callback = handle.callback;
  if (callback->worker() == internal::Worker::kNative) throw nb::type_error("callout: a sink cannot be called inline");
  const ArrayBuffers buffers(arrays);
  {
    const GilRelease release;
    internal::Delivery::Get().DrainDevice(*callback, device_ordinal, 0);
  }
  const internal::SiteInfo site{label.empty() ? callback->label() : label, leaf_names};
  std::vector<void*> blocks(buffers.size());
  const internal::Probe probe(internal::Activity::kDelivery, *callback, device_ordinal, 0,
                              internal::Probe::Timing::kEach);
  const Status status = callback->Deliver({.site = &site,
                                           .buffers = {buffers.data(), buffers.size()},
                                           .blocks = blocks.data(),
                                           .device_ordinal = device_ordinal,
                                           .run_id = 0,
                                           .sequence = 0,
                                           .ticks = internal::Ticks()});
  probe.Over(internal::TotalBytes({buffers.data(), buffers.size()}), !status.ok());
  ThrowIfError(status);
}

}  // namespace

void BindEager(nb::module_& m) {
  m.def("set_process_index", &internal::SetProcessIndex, nb::arg("index"));
  m.def("call_eager", &CallEager, nb::arg("callback"), nb::arg("arrays"), nb::arg("result_specs"),
        nb::arg("device_ordinal"), nb::arg("ordered"));
  m.def("tap_inline", &TapInline, nb::arg("callback"), nb::arg("arrays"), nb::arg("label"), nb::arg("leaf_names"),
        nb::arg("device_ordinal"), "Calls the tap's function in this thread.");
}

}  // namespace callout::python
