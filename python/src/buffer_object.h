// SPDX-License-Identifier: Apache-2.0
//
// `Buffer`: what a buffer callback gets for an argument or a result. It stands for memory of XLA's for the length of a
// call; afterwards every use of it is an error.
#pragma once

#include "python_api.h"

#include <string>

#include "callout/abi.h"
#include "cuda_buffer.h"

namespace callout::python {

/// Makes the type; call once, before the others. Borrowed; null with a Python error. Requires GIL.
PyObject* InitBuffers();

/// A new Buffer in `space`. Borrowed memory: EndBuffer is called before the callback returns to XLA. Null with a Python
/// error. Requires GIL.
PyObject* NewBuffer(const callout_buffer& buffer, bool writeable, const MemorySpace& space);

/// Takes the memory away from a Buffer, to which the caller has one reference. False if an array, a memoryview or a
/// tensor still refers to it. Requires GIL.
bool EndBuffer(PyObject* buffer);

/// True if something that was made of it still refers to the memory: on CUDA also if the Buffer itself does, from which
/// an array was made that keeps it. The caller has one reference. Requires GIL.
bool BufferIsKept(PyObject* buffer);

/// The memory of a Buffer, and where it is. Borrowed: valid until its call is over. Null with a Python error for
/// another object, or if the call is over. Requires GIL.
const callout_buffer* MemoryOf(PyObject* buffer, MemorySpace* space);

/// What XLA's stream gets from now on runs after what the streams have that the Buffer's memory was given to by DLPack.
/// False with a Python error. Requires GIL.
bool OrderXlaBehindConsumers(PyObject* buffer);

}  // namespace callout::python
