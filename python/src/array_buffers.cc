// SPDX-License-Identifier: Apache-2.0
#include "array_buffers.h"

#include "callout/elements.h"

namespace callout::python {

void ArrayBuffers::Append(PyObject* object) {
  const Ref given(PyArray_FROM_OF(object, NPY_ARRAY_IN_ARRAY));
  // The view has a shape of its own: while another thread has the GIL, the shape of the user's array may change or
  // move.
  Ref array(given ? PyArray_View(reinterpret_cast<PyArrayObject*>(given.get()), nullptr, &PyArray_Type) : nullptr);
  if (!array) nanobind::raise_python_error();
  auto* dense = reinterpret_cast<PyArrayObject*>(array.get());
  const DType dtype = DTypeOf(PyArray_DESCR(dense));
  if (dtype == DType::kInvalid) throw nanobind::type_error("callout: an array of a dtype that XLA does not have");
  const auto elements = static_cast<int64_t>(PyArray_SIZE(dense));
  callout_buffer buffer = {static_cast<uint32_t>(dtype), static_cast<uint32_t>(PyArray_NDIM(dense)),
                           PyArray_DATA(dense), reinterpret_cast<const int64_t*>(PyArray_DIMS(dense)),
                           PackedBytes(dtype, elements)};
  if (IsSubByte(dtype)) {
    packed_.emplace_back(buffer.size_bytes);
    Pack(dtype, static_cast<const uint8_t*>(buffer.data), elements, packed_.back().data());
    buffer.data = packed_.back().data();
  }
  buffers_.push_back(buffer);
  arrays_.push_back(std::move(array));
}

}  // namespace callout::python
