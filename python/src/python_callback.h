// SPDX-License-Identifier: Apache-2.0
//
// A Python function as a Callback: called inline for a result, or with a tap's records by the Python worker.
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

/// How the function wants its arguments and what is expected of it. Any reference may be empty.
struct PythonSignature {
  SharedRef function;
  /// (leaves) -> (args tuple, kwargs dict) of a call. Empty: the leaves are the positional arguments.
  SharedRef unflatten;
  /// (leaves) -> value of a tap. Empty: the one leaf is the value.
  SharedRef unflatten_value;
  /// (result) -> list of leaves; raises if the structure is not the expected one. Empty: see `single_result`.
  SharedRef flatten;
  /// Whether the result is one array (or ignored, where the call has none) or a flat tuple of them. With `flatten`, an
  /// array that comes as the one result is taken without asking.
  bool single_result = true;
  /// (result that does not fit) -> raises what the caller is to see. Where it is set, None is a result like others.
  SharedRef explain;
  /// (device ordinal) -> object, passed as keyword `device`. A call then needs `unflatten`.
  SharedRef device_lookup;
  /// (arrays, where they begin in the whole value) -> object, passed as keyword `index`.
  SharedRef index_lookup;
  /// Passed as keyword `transforms`.
  SharedRef transforms;
  /// `transforms` is the second argument instead.
  bool transforms_by_position = false;
  /// A failed call is raised by the next barrier, too.
  bool barrier_raises = false;
  /// Where messages go, as callout._base.loggers numbers loggers.
  internal::LogSource log_source = internal::LogSource::kCore;
  bool zero_copy = false;
  /// A promise that it does not use JAX.
  bool numpy_only = false;
  Canonicalize canonicalize = Canonicalize::k64To32;
};

class PythonCallback final : public internal::Callback, public Traversable {
 public:
  /// Requires GIL. Any thread may destroy it, with the GIL or without.
  PythonCallback(std::string label, PythonSignature signature);

  internal::Worker worker() const override { return internal::Worker::kPython; }
  internal::LogSource log_source() const override { return signature_.log_source; }
  /// GIL not needed. Takes it.
  Status Call(const callout_call& call) override;
  Status CheckTap(size_t num_leaves) const override;
  int Traverse(visitproc visit, void* arg) const override;
  /// Requires GIL.
  Status Deliver(const internal::Record& record) override;

 private:
  Status CallWithGil(const callout_call& call);
  Status TakeCallError() const;
  Ref CallFunction(PyObject* const* leaves, size_t count, int32_t device_ordinal);
  Ref CallTap(PyObject* const* leaves, size_t count, const internal::Record& record);
  Ref LookUpDevice(int32_t ordinal) const;
  Ref LookUpIndex(PyObject* const* leaves, size_t count, const internal::Record& record) const;
  Status StoreResults(PyObject* value, const callout_call& call);
  Status Explained(PyObject* value, Status mismatch) const;
  Status StoreLeaves(PyObject* sequence, const callout_call& call);

  const PythonSignature signature_;
};

}  // namespace callout::python
