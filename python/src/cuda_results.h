// SPDX-License-Identifier: Apache-2.0
//
// Results of a callback that works on a CUDA device's memory and returns arrays, as those on the host do.
#pragma once

#include "python_api.h"

#include <string>

#include "arrays.h"

namespace callout::python {

/// Copies `values`, a list, into the Buffers of `results`, a tuple, on the program's stream, and waits without the GIL
/// until the copies have run: what was copied may be dropped then. A value is an array on the device (of DLPack, or
/// with the CUDA array interface), behind whatever was queued for it, or whatever NumPy takes, on the host. Returns "",
/// or why one does not fit ("result 0: expected f32[3], got f32[4]"), or has a Python error set and returns "".
/// That stream also waits for what consumers of DLPack have queued for the Buffers of `arguments`, a tuple. Requires
/// GIL. Blocks until the stream is there. `canonicalize`: as in StoreResult, for values on the host.
std::string StoreOnDevice(PyObject* values, PyObject* results, PyObject* arguments, Canonicalize canonicalize);

}  // namespace callout::python
