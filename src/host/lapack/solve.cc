// SPDX-License-Identifier: Apache-2.0
#include "host/lapack/solve.h"

#include <algorithm>

#include "host/lapack/instances.h"
#include "host/lapack/routines.h"

namespace callout::internal::lapack {

template <typename T>
Status Trsm(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(2, 1));
  CALLOUT_ASSIGN_OR_RETURN(char side, frame.Flag("side", "LR"));
  CALLOUT_ASSIGN_OR_RETURN(char uplo, frame.Flag("uplo", "LU"));
  CALLOUT_ASSIGN_OR_RETURN(char trans, frame.Flag("trans_x", "NTC"));
  CALLOUT_ASSIGN_OR_RETURN(char diag, frame.Flag("diag", "NU"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> a, frame.Arg<T>(0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> b, frame.InPlace<T>(1, 0, 2));
  Int m = b.dim(0), n = b.dim(1), k = side == 'L' ? m : n;
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(a, b.count, {k, k}, "the triangular matrix"));
  Int lda = std::max(1, k), ldb = std::max(1, m);
  T alpha = T(1);
  for (int64_t i = 0; i < b.count; ++i) {
    CALLOUT_RETURN_IF_ERROR((Call<T, "trsm">(&side, &uplo, &trans, &diag, &m, &n, &alpha, a.at(i), &lda, b.at(i), &ldb,
                                             kOne, kOne, kOne, kOne)));
  }
  return OkStatus();
}

template <typename T>
Status Gtsv(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(4, 5));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> lower, frame.InPlace<T>(0, 0, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> diagonal, frame.InPlace<T>(1, 1, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> upper, frame.InPlace<T>(2, 2, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> b, frame.InPlace<T>(3, 3, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(4, 0));
  Int n = b.dim(0), columns = b.dim(1), ldb = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(lower, b.count, {n}, "the lower diagonal"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(diagonal, b.count, {n}, "the diagonal"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(upper, b.count, {n}, "the upper diagonal"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, b.count, {}, "info"));
  for (int64_t i = 0; i < b.count; ++i) {
    T* below = lower.at(i) + std::min(n, 1);
    CALLOUT_RETURN_IF_ERROR(
        (Call<T, "gtsv">(&n, &columns, below, diagonal.at(i), upper.at(i), b.at(i), &ldb, info.at(i))));
  }
  return OkStatus();
}

CALLOUT_LAPACK_INSTANCES(Trsm)
CALLOUT_LAPACK_INSTANCES(Gtsv)

}  // namespace callout::internal::lapack
