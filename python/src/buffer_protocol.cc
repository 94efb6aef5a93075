// SPDX-License-Identifier: Apache-2.0
#include "buffer_protocol.h"

#include <string>

#include "core/frame/elements.h"

namespace callout::python {
namespace {

// Allocates the strides, followed by the shape. A scalar has neither.
bool MakeExtents(const callout_buffer& memory, Py_ssize_t itemsize, Py_ssize_t** extents) {
  if (*extents != nullptr || memory.rank == 0) return true;
  auto* strides = static_cast<Py_ssize_t*>(PyMem_Malloc(sizeof(Py_ssize_t) * 2 * memory.rank));
  if (strides == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  Py_ssize_t* const shape = strides + memory.rank;
  Py_ssize_t stride = itemsize;
  for (uint32_t i = memory.rank; i-- > 0;) {
    strides[i] = stride;
    shape[i] = static_cast<Py_ssize_t>(memory.dims[i]);
    stride *= shape[i];
  }
  *extents = strides;
  return true;
}

bool Refuse(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return false;
}

}  // namespace

bool FillPyBuffer(const callout_buffer& memory, bool writeable, int flags, Py_ssize_t** extents, Py_buffer* out) {
  const auto dtype = static_cast<DType>(memory.dtype);
  const char* format = internal::RowOf(dtype).letter;
  if (*format == '\0') {
    PyErr_Format(PyExc_BufferError, "callout: the buffer protocol has no dtype %s; numpy.asarray takes it",
                 std::string(NumpyName(dtype)).c_str());
    return false;
  }
  const bool column_major =
      (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && (flags & PyBUF_ANY_CONTIGUOUS) != PyBUF_ANY_CONTIGUOUS;
  if (column_major && memory.rank > 1) return Refuse("callout: a Buffer is row-major");
  if ((flags & PyBUF_WRITABLE) != 0 && !writeable) {
    return Refuse("callout: an argument of a buffer callback is read-only");
  }
  const Py_ssize_t itemsize = BitWidth(dtype) / 8;
  if (!MakeExtents(memory, itemsize, extents)) return false;
  out->buf = memory.data;
  out->len = static_cast<Py_ssize_t>(memory.size_bytes);
  out->itemsize = itemsize;
  out->readonly = writeable ? 0 : 1;
  out->ndim = static_cast<int>(memory.rank);
  out->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  out->shape = (flags & PyBUF_ND) != 0 ? *extents + memory.rank : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? *extents : nullptr;
  out->suboffsets = nullptr;
  out->internal = nullptr;
  return true;
}

}  // namespace callout::python
