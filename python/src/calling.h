// SPDX-License-Identifier: Apache-2.0
//
// Calls Python functions from a program's threads.
#pragma once

#include "python_api.h"

#include <cstddef>
#include <string>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/profile/recorder.h"
#include "errors.h"
#include "gil.h"
#include "host_callback_scope.h"

namespace callout::python {

/// Calls `function`. `arguments` has a free slot in front. Null with a Python error. Requires GIL.
Ref CallPython(PyObject* function, PyObject* const* arguments, size_t count, PyObject* keywords);
/// Calls `function` with one argument. Null with a Python error. Requires GIL.
Ref CallPython(PyObject* function, PyObject* argument);
/// Calls `function` with the contents of `structure`, an (args, kwargs) pair. Null with a Python error. Requires GIL.
Ref CallWithStructure(PyObject* function, PyObject* structure);

/// Like CallPython, for the user's own function: a profile shows the call under `label`. Null with a Python error.
/// Requires GIL.
Ref CallUser(const std::string& label, PyObject* function, PyObject* const* arguments, size_t count,
             PyObject* keywords);
/// Like CallWithStructure, for the user's own function. Null with a Python error. Requires GIL.
Ref CallUserWithStructure(const std::string& label, PyObject* function, PyObject* structure);

/// Steals a reference to each item. Null with a Python error. Requires GIL.
Ref MakeTuple(PyObject* const* items, size_t count);

/// Runs `body()`, which returns a Status, with the GIL, and logs a failure as the callback's. On one of XLA's own
/// threads the program was dispatched asynchronously, and others may be queued behind it: there `body` runs in XLA's
/// host callback scope, unless the callback is `numpy_only`. GIL not needed.
template <typename Body>
Status CallFromProgram(const internal::Callback& callback, const callout_call& call, bool numpy_only, Body body) {
  const internal::ProfileSpan wait;
  const GilScope gil;
  if (!gil.ok()) return Unavailable("the Python interpreter is going away");
  if (wait.on()) [[unlikely]]
    wait.End({.kind = internal::ProfileKind::kGilWait});
  Status status;
  if (!gil.on_foreign_thread() || numpy_only || call.error_context == nullptr) [[likely]] {
    status = body();
  } else {
    RunInXlaScope(call.error_context, [&] { status = body(); });
  }
  if (!status.ok()) [[unlikely]]
    LogFailedCall(callback, call.device_ordinal, status);
  return status;
}

/// A callback that refers to Python objects, and shows them to Python's garbage collector.
class Traversable {
 public:
  virtual ~Traversable() = default;
  /// Visits the objects, as tp_traverse does. Requires GIL.
  virtual int Traverse(visitproc visit, void* arg) const = 0;
};

}  // namespace callout::python
