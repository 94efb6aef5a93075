// SPDX-License-Identifier: Apache-2.0
//
// `Buffer`: what a buffer callback gets for each argument and result. A Buffer stands for XLA's memory during one call;
// after the call every use of it is an error.
#pragma once

#include "python_api.h"

#include <string>

#include "callout/abi.h"
#include "cuda_buffer.h"

namespace callout::python {

/// Makes the type. Called once, before the other functions. Borrowed; null with a Python error. Requires GIL.
PyObject* InitBuffers();

/// Returns a new Buffer in `space` over borrowed memory: the caller calls EndBuffer before the callback returns to XLA.
/// Null with a Python error. Requires GIL.
PyObject* NewBuffer(const callout_buffer& buffer, bool writeable, const MemorySpace& space);

/// Takes the memory away from a Buffer, to which the caller holds one reference. Returns false if an array, a
/// memoryview or a tensor still refers to the memory. Requires GIL.
bool EndBuffer(PyObject* buffer);

/// True if an object that was made of the Buffer still refers to the memory. On CUDA the Buffer itself counts, too, if
/// an array that was made of it keeps it. The caller holds one reference to `buffer`. Requires GIL.
bool BufferIsKept(PyObject* buffer);

/// Returns the memory of a Buffer and sets `space` to where it is. Borrowed: valid until the Buffer's call is over.
/// Null with a Python error for another object, or if the call is over. Requires GIL.
const callout_buffer* MemoryOf(PyObject* buffer, MemorySpace* space);

/// Makes all later work on XLA's stream run after the work already queued on streams that got the Buffer's memory
/// through DLPack. False with a Python error. Requires GIL.
bool OrderXlaBehindConsumers(PyObject* buffer);

}  // namespace callout::python
