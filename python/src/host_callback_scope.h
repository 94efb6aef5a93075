// SPDX-License-Identifier: Apache-2.0
//
// The function that programs with Python calls carry as their host callback. It makes PJRT dispatch them synchronously,
// and jaxlib calls it in the scope that marks a thread as being in a host callback; see frame/xla_scope.h.
#pragma once

#include "python_api.h"

#include <exception>

namespace callout::python {

struct Work {
  void (*run)(void* body);
  void* body;
  std::exception_ptr thrown;
};
void RunWorkInXlaScope(void* frame, Work work);

/// Runs `body()` once on this thread, in XLA's host callback scope if the scope can be entered from `frame`, the
/// XLA_FFI_CallFrame of the call. Requires GIL.
template <typename Body>
void RunInXlaScope(void* frame, Body body) {
  RunWorkInXlaScope(frame, {[](void* f) { (*static_cast<Body*>(f))(); }, &body, nullptr});
}

}  // namespace callout::python
