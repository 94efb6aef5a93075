// SPDX-License-Identifier: Apache-2.0
//
// Stores the results of a callback that works on a CUDA device's memory and returns arrays, as callbacks on the host
// do.
#pragma once

#include "python_api.h"

#include <string>

#include "arrays.h"

namespace callout::python {

/// Copies `values`, a list, into the Buffers of `results`, a tuple, on the program's stream, and waits without the GIL
/// until the copies have run, so that their sources may be dropped. A value is an array on the device (through DLPack
/// or the CUDA array interface), which is read after the work already queued for it, or anything on the host that NumPy
/// takes. The stream also waits for the work that consumers of DLPack have queued for the Buffers of `arguments`, a
/// tuple. `canonicalize`: as in StoreResult, for values on the host. Returns "", or why a value does not fit ("result
/// 0: expected f32[3], got f32[4]"), or "" with a Python error set. Requires GIL. Blocks until the stream has run the
/// copies.
std::string StoreOnDevice(PyObject* values, PyObject* results, PyObject* arguments, Canonicalize canonicalize);

}  // namespace callout::python
