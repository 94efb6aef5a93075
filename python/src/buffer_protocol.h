// SPDX-License-Identifier: Apache-2.0
//
// Python's buffer protocol (PEP 3118) over memory of XLA's.
#pragma once

#include "python_api.h"

#include "callout/abi.h"

namespace callout::python {

/// Fills all of `out` but its `obj`. `extents`: strides and shape of the views, made here when the first is asked for;
/// the owner frees them by PyMem_Free, after the last view. False with a Python BufferError for what the consumer wants
/// and cannot have: writing, column-major order, a dtype without a format. Requires GIL.
bool FillPyBuffer(const callout_buffer& memory, bool writeable, int flags, Py_ssize_t** extents, Py_buffer* out);

}  // namespace callout::python
