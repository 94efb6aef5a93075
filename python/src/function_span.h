// SPDX-License-Identifier: Apache-2.0
//
// What a profile sees of the user's Python functions: a span in ours, and an annotation in JAX's own profiler.
#pragma once

#include "python_api.h"

#include <string>

#include "core/profile/recorder.h"

namespace callout::python {

/// Around a call of the user's function. Keeps a Python error that is set. Requires GIL.
class FunctionSpan {
 public:
  explicit FunctionSpan(const std::string& label) {
    if (span_.on()) [[unlikely]]
      Annotate(label);
  }
  ~FunctionSpan() {
    if (span_.on()) [[unlikely]]
      End();
  }
  FunctionSpan(const FunctionSpan&) = delete;
  FunctionSpan& operator=(const FunctionSpan&) = delete;

 private:
  void Annotate(const std::string& label);
  void End();

  const internal::ProfileSpan span_;
  Ref annotation_;
};

/// What makes a context manager of a label (null: nothing is annotated), and, unless it is null, what says whether that
/// is of use now. Requires GIL.
void SetAnnotation(PyObject* factory, PyObject* is_enabled);

}  // namespace callout::python
