// SPDX-License-Identifier: Apache-2.0
//
// Shows the user's Python functions in profiles: as a span in Callout's, and as an annotation in JAX's profiler.
#pragma once

#include "python_api.h"

#include <string>

#include "core/profile/recorder.h"

namespace callout::python {

/// Surrounds a call of the user's function. Keeps a Python error that is set. Requires GIL.
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

/// Sets `factory`, which makes a context manager of a label (null: nothing is annotated), and `is_enabled`, which
/// returns whether an annotation is of use now (null: always). Requires GIL.
void SetAnnotation(PyObject* factory, PyObject* is_enabled);

}  // namespace callout::python
