// SPDX-License-Identifier: Apache-2.0
//
// `ExecutionContext`: what a buffer callback learns of the call that it is part of.
#pragma once

#include "python_api.h"

#include <cstdint>

#include "cuda_buffer.h"

namespace callout::python {

/// Makes the type; call once, before the other. Borrowed; null with a Python error. Requires GIL.
PyObject* InitExecutionContext();

/// Null with a Python error. Requires GIL.
PyObject* NewExecutionContext(const MemorySpace& space, int64_t run_id);

}  // namespace callout::python
