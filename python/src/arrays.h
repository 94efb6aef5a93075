// SPDX-License-Identifier: Apache-2.0
//
// Converts XLA's buffers to NumPy arrays and back. It uses the raw NumPy C API: nanobind's ndarray costs ten times as
// much.
#pragma once

#include "python_api.h"

#include <string>

#include "callout/abi.h"
#include "callout/dtype.h"

namespace callout::python {

/// Imports NumPy's C API and looks up the dtypes, including those of ml_dtypes. False with a Python error. Requires
/// GIL.
bool InitArrays();

/// Returns the NumPy dtype, or null if neither NumPy nor ml_dtypes has one. Borrowed. Requires GIL.
PyArray_Descr* DescrOf(DType dtype);

/// Returns the DType of a NumPy dtype, or kInvalid if XLA has none. Requires GIL.
DType DTypeOf(PyArray_Descr* descr);

/// Returns an array that owns a copy of the buffer, with sub-byte elements unpacked. Null with a Python error. Requires
/// GIL.
PyObject* CopyToArray(const callout_buffer& buffer);

/// Like CopyToArray, but takes ownership of `block` (base/block_pool.h), which holds the data, instead of copying, and
/// sets `*block` to null. Requires GIL.
PyObject* AdoptAsArray(const callout_buffer& buffer, void** block);

/// Returns a read-only array over the buffer itself; sub-byte dtypes are copied nevertheless. Borrowed: valid until the
/// callback returns. Requires GIL.
PyObject* ViewAsArray(const callout_buffer& buffer);

/// Like ViewAsArray, but the array is writable. Not for sub-byte dtypes. Requires GIL.
PyObject* WriteableViewAsArray(const callout_buffer& buffer);

enum class Canonicalize { kNo, k64To32 };

/// Writes a callback's result into the buffer: an array, NumPy scalar or Python number of the buffer's shape and dtype.
/// `k64To32` accepts 64-bit dtypes where 32-bit ones are expected, as JAX does without x64. Returns "", or why the
/// value does not fit ("expected f32[3], got f32[4]"), or "" with a Python error set. Requires GIL.
std::string StoreResult(PyObject* value, const callout_buffer& result, Canonicalize canonicalize);

}  // namespace callout::python
