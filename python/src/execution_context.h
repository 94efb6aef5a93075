// SPDX-License-Identifier: Apache-2.0
//
// `ExecutionContext`: describes the call to a buffer callback.
#pragma once

#include "python_api.h"

#include <cstdint>

#include "cuda_buffer.h"

namespace callout::python {

/// Makes the type. Called once, before NewExecutionContext. Borrowed; null with a Python error. Requires GIL.
PyObject* InitExecutionContext();

/// Returns a new ExecutionContext. Null with a Python error. Requires GIL.
PyObject* NewExecutionContext(const MemorySpace& space, int64_t run_id);

}  // namespace callout::python
