// SPDX-License-Identifier: Apache-2.0
//
// A Python function as a Callback: called inline for a result, or by the Python worker with a tap's records.
#pragma once

#include "python_api.h"

#include <cstdint>
#include <memory>
#include <string>

#include "arrays.h"
#include "calling.h"
#include "core/callbacks/callback.h"
#include "gil.h"

namespace callout::python {

/// How the function wants its arguments, and what it must return. Any reference may be empty.
struct PythonSignature {
  /// Empty: the function is the one of the handle (function_object.h) that a tap sends in front of the value.
  SharedRef function;
  /// (leaves) -> (args tuple, kwargs dict) of a call. Empty: the leaves are the positional arguments.
  SharedRef unflatten;
  /// (leaves) -> value of a tap. Empty: the value is the only leaf.
  SharedRef unflatten_value;
  /// (result) -> list of leaves; raises if the structure is not the expected one. Empty: see `single_result`.
  SharedRef flatten;
  /// True if the result is one array (or ignored, where the call has none), false if it is a flat tuple of arrays. With
  /// `flatten` set, one array is accepted for the one result without calling `flatten`.
  bool single_result = true;
  /// (result that does not fit) -> raises the error for the caller. If it is set, None is a result like others.
  SharedRef explain;
  /// (device ordinal) -> object, passed as keyword `device`. A call with it needs `unflatten`.
  SharedRef device_lookup;
  /// (arrays, where they begin in the whole value) -> object, passed as keyword `index`.
  SharedRef index_lookup;
  /// Passed as keyword `transforms`.
  SharedRef transforms;
  /// Passes `transforms` as the second positional argument instead.
  bool transforms_by_position = false;
  /// The next barrier raises the error of a failed call, too.
  bool barrier_raises = false;
  /// The logger of the function's messages, numbered as in callout._base.loggers.
  internal::LogSource log_source = internal::LogSource::kCore;
  bool zero_copy = false;
  /// The user's promise that the function does not use JAX.
  bool numpy_only = false;
  Canonicalize canonicalize = Canonicalize::k64To32;
};

class PythonCallback final : public internal::Callback, public Traversable {
 public:
  /// Requires GIL. Any thread may destroy the callback, with the GIL or without.
  PythonCallback(std::string label, PythonSignature signature);

  internal::Worker worker() const override { return internal::Worker::kPython; }
  internal::LogSource log_source() const override { return signature_.log_source; }
  /// GIL not needed; takes the GIL itself.
  Status Call(const callout_call& call) override;
  Status CheckTap(size_t num_leaves) const override;
  int Traverse(visitproc visit, void* arg) const override;
  /// Requires GIL.
  Status Deliver(const internal::Record& record) override;

 private:
  Status CallWithGil(const callout_call& call);
  Status TakeCallError() const;
  Ref CallFunction(PyObject* const* leaves, size_t count, int32_t device_ordinal);
  Status DeliverTo(PyObject* function, const internal::Record& record);
  Ref CallTap(PyObject* function, PyObject* const* leaves, size_t count, const internal::Record& record);
  Ref LookUpDevice(int32_t ordinal) const;
  Ref LookUpIndex(PyObject* const* leaves, size_t count, const internal::Record& record) const;
  Status StoreResults(PyObject* value, const callout_call& call);
  Status Explained(PyObject* value, Status mismatch) const;
  Status StoreLeaves(PyObject* sequence, const callout_call& call);

  const PythonSignature signature_;
};

}  // namespace callout::python
