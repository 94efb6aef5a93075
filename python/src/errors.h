// SPDX-License-Identifier: Apache-2.0
//
// The one place where Python exceptions become Statuses and Statuses become Python exceptions. callout._base.errors
// keeps the exception object under a number that the Status carries, so that Python gets the same object back.
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

/// Sets an exception with the traceback that it already has. Requires GIL.
void RestoreException(PyObject* exception);

/// Clears the current Python error and returns it as a Status with the traceback's text and the exception's number.
/// `kClear` clears the variables of the frames in the traceback and in the tracebacks of its causes. Requires GIL, and
/// a Python error to be set.
Status TakePythonError(Frames frames = Frames::kKeep);

/// Returns the Status of a call that failed with `failed` and also kept memory that is not its own (`kept`). Drops the
/// exception, which may be what keeps the memory; the exception's text stays. Requires GIL.
Status WithoutException(const Status& failed, const Status& kept);

/// Logs a failed call, with its exception if Python raised one, at level DEBUG. Requires GIL.
void LogFailedCall(const internal::Callback& callback, int32_t device_ordinal, const Status& status);

/// Returns the exception for `status`, which is not ok: the original one if Python still keeps it, else one of the
/// class for the Status's kind. Null with a Python error. Requires GIL.
Ref ExceptionOf(const Status& status);

/// Sets the exception of ExceptionOf for a failure in a function of this extension. There, NotFound, AlreadyExists,
/// PermissionDenied and InvalidArgument without a kind are failed registrations. Requires GIL.
void SetPythonError(const Status& status);

/// Like SetPythonError, but throws nanobind's python_error. Does nothing if ok. Requires GIL.
void ThrowIfError(const Status& status);

}  // namespace callout::python
