// SPDX-License-Identifier: Apache-2.0
//
// Python's buffer protocol (PEP 3118) over XLA's memory.
#pragma once

#include "python_api.h"

#include "callout/abi.h"

namespace callout::python {

/// Fills all of `out` but its `obj`. `extents`: the strides and shape of all views, allocated for the first view; the
/// owner frees them by PyMem_Free after the last view. False with a Python BufferError if the consumer asks for what it
/// cannot have: writing, column-major order, or a dtype without a format. Requires GIL.
bool FillPyBuffer(const callout_buffer& memory, bool writeable, int flags, Py_ssize_t** extents, Py_buffer* out);

}  // namespace callout::python
