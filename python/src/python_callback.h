// SPDX-License-Identifier: Apache-2.0
//
// A Python function as a Callback: called inline for a result, or with a tap's records on the Python lane.
#pragma once

#include "python_api.h"

#include <memory>
#include <string>

#include "arrays.h"
#include "calling.h"
#include "gil.h"
#include "registry/callback.h"

namespace callout::python {

/// How the function wants its arguments and what is expected of it. Any reference may be empty.
struct PythonSignature {
  SharedRef function;
  /// (leaves) -> (args tuple, kwargs dict) of a call. Empty: the leaves are the positional arguments.
  SharedRef unflatten;
  /// (leaves) -> value of a tap. Empty: the one leaf is the value.
  SharedRef unflatten_value;
  /// (result) -> list of leaves; raises if the structure is not the expected one. Empty: see `num_results`.
  SharedRef flatten;
  /// Without `flatten`: whether the result is one array (or ignored, where the call has none) or a flat tuple of them.
  bool single_result = true;
  /// (device ordinal) -> object, passed as keyword `device`.
  SharedRef device_lookup;
  /// (arrays, where they begin in the whole value) -> object, passed as keyword `index`.
  SharedRef index_lookup;
  /// Passed as keyword `transforms`.
  SharedRef transforms;
  bool zero_copy = false;
  /// A promise that it does not use JAX.
  bool numpy_only = false;
  Canonicalize canonicalize = Canonicalize::k64To32;
};

class PythonCallback final : public internal::Callback, public Traversable {
 public:
  /// Requires GIL. Any thread may destroy it, with the GIL or without.
  PythonCallback(std::string label, PythonSignature signature);

  internal::Lane lane() const override { return internal::Lane::kPython; }
  /// GIL not needed. Takes it.
  Status Call(const callout_call& call) override;
  int Traverse(visitproc visit, void* arg) const override;
  /// Requires GIL.
  Status Deliver(const internal::Record& record) override;

 private:
  Status CallWithGil(const callout_call& call);
  Ref CallFunction(PyObject* const* leaves, size_t count);
  Ref CallTap(PyObject* const* leaves, size_t count, const internal::Record& record);
  Ref LookUpIndex(PyObject* const* leaves, size_t count, const internal::Record& record) const;
  Status StoreResults(PyObject* value, const callout_call& call);
  Status StoreLeaves(PyObject* sequence, const callout_call& call);

  const PythonSignature signature_;
};

}  // namespace callout::python
