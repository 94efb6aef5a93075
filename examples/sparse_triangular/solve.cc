// SPDX-License-Identifier: Apache-2.0
// Substitution with a sparse lower triangular matrix in CSR form. Columns ascend, so that the diagonal is last in its
// row.
#include "callout/kernel.h"

namespace {

using Indices = callout::In<int32_t, 1>;
using Values = callout::In<float, 1>;

callout::Error Check(const Indices& starts, const Indices& columns, int64_t n) {
  if (starts.size() != n + 1) return callout::Error("`starts` must have one element more than `b`");
  for (int64_t i = 0; i < n; ++i) {
    const int32_t last = starts[i + 1] - 1;
    if (last < starts[i] || last >= columns.size() || columns[last] != i) {
      return callout::Error("the matrix has a row whose last element is not on the diagonal");
    }
  }
  return {};
}

}  // namespace

/// Solves L x = b.
callout::Error solve(Indices starts, Indices columns, Values values, Values b, callout::Out<float, 1> x) {
  if (auto error = Check(starts, columns, b.size()); error.failed()) return error;
  for (int64_t i = 0; i < b.size(); ++i) {
    const int32_t diagonal = starts[i + 1] - 1;
    float sum = b[i];
    for (int32_t k = starts[i]; k < diagonal; ++k) sum -= values[k] * x[columns[k]];
    x[i] = sum / values[diagonal];
  }
  return {};
}
CALLOUT_KERNEL(solve);

/// Solves L^T x = b.
callout::Error solve_transposed(Indices starts, Indices columns, Values values, Values b, callout::Out<float, 1> x) {
  if (auto error = Check(starts, columns, b.size()); error.failed()) return error;
  for (int64_t i = 0; i < b.size(); ++i) x[i] = b[i];
  for (int64_t i = b.size(); i-- > 0;) {
    const int32_t diagonal = starts[i + 1] - 1;
    x[i] /= values[diagonal];
    for (int32_t k = starts[i]; k < diagonal; ++k) x[columns[k]] -= values[k] * x[i];
  }
  return {};
}
CALLOUT_KERNEL(solve_transposed);
