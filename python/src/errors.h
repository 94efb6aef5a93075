// SPDX-License-Identifier: Apache-2.0
//
// The one place where Python exceptions become Statuses and Statuses become Python exceptions. The exception object
// itself stays in callout._base.errors under a number that the Status's text carries, so that it comes back as itself.
#pragma once

#include "python_api.h"

#include <cstdint>

#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::python {

enum class Frames { kKeep, kClear };

/// Clears the current Python error and returns it as one normalised exception object; null if there is none. Requires
/// GIL.
Ref FetchException();

/// Sets an exception with the traceback that it has. Requires GIL.
void RestoreException(PyObject* exception);

/// Clears the current Python error and returns it as a Status: the traceback's text and the exception's number.
/// `kClear`: the frames of its traceback, and of those that led to it, lose their variables. Requires GIL, and a Python
/// error to be set.
Status TakePythonError(Frames frames = Frames::kKeep);

/// What a call returns that failed and besides kept memory which is not its own. The exception, which may be what keeps
/// it, is dropped: its text stays. Requires GIL.
Status WithoutException(const Status& failed, const Status& kept);

/// Tells the logger of a call that failed, with its exception if Python raised one; of level DEBUG. Requires GIL.
void LogFailedCall(const internal::Callback& callback, int32_t device_ordinal, const Status& status);

/// Sets the Python error that `status`, which is not ok, stands for: the original exception if its text carries a
/// number, else a callout error of the class that fits its code. Requires GIL.
void SetPythonError(const Status& status);

/// As SetPythonError, by throwing nanobind's python_error. Does nothing if ok. Requires GIL.
void ThrowIfError(const Status& status);

}  // namespace callout::python
