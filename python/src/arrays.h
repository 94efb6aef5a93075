// SPDX-License-Identifier: Apache-2.0
//
// NumPy arrays from XLA's buffers and back. Raw NumPy C API: nanobind's ndarray costs ten times as much.
#pragma once

#include "python_api.h"

#include <string>

#include "callout/abi.h"
#include "callout/dtype.h"

namespace callout::python {

/// Imports NumPy's C API and looks up the dtypes, ml_dtypes' too. False with a Python error. Requires GIL.
bool InitArrays();

/// Borrowed, or null if neither NumPy nor ml_dtypes has it. Requires GIL.
PyArray_Descr* DescrOf(DType dtype);

/// The DType of a NumPy dtype; kInvalid if XLA has none. Requires GIL.
DType DTypeOf(PyArray_Descr* descr);

/// An array that owns a copy of the buffer, sub-byte elements unpacked. Null with a Python error. Requires GIL.
PyObject* CopyToArray(const callout_buffer& buffer);

/// As CopyToArray, but takes over `block` (base/block_pool.h), in which the data lies, instead of copying; `block` is
/// then set to null. Requires GIL.
PyObject* AdoptAsArray(const callout_buffer& buffer, void** block);

/// A read-only array over the buffer itself; sub-byte types are copied all the same. Borrowed: valid until the callback
/// returns. Requires GIL.
PyObject* ViewAsArray(const callout_buffer& buffer);

/// As ViewAsArray, but writable; not for sub-byte types. Requires GIL.
PyObject* WriteableViewAsArray(const callout_buffer& buffer);

enum class Canonicalize { kNo, k64To32 };

/// Writes a callback's result into the buffer: an array, NumPy scalar or Python number of the buffer's shape and dtype.
/// `k64To32` takes 64-bit dtypes where 32-bit ones are expected, as JAX does without x64. Returns "" or why it does not
/// fit ("expected f32[3], got f32[4]"), or has a Python error set and returns "". Requires GIL.
std::string StoreResult(PyObject* value, const callout_buffer& result, Canonicalize canonicalize);

}  // namespace callout::python
