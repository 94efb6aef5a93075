// SPDX-License-Identifier: Apache-2.0
#include "host/lapack/factorize.h"

#include <algorithm>

#include "host/lapack/library.h"

namespace callout::internal::lapack {

template <typename T>
Status Getrf(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 3));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> pivots, frame.Ret<Int>(1, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(2, 0));
  Int m = x.dim(0), n = x.dim(1), lda = std::max(1, m);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(pivots, x.count, {std::min(m, n)}, "pivots"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  for (int64_t i = 0; i < x.count; ++i) {
    CALLOUT_RETURN_IF_ERROR((Call<T, "getrf">(&m, &n, x.at(i), &lda, pivots.at(i), info.at(i))));
  }
  return OkStatus();
}

template <typename T>
Status Geqrf(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> tau, frame.Ret<T>(1, 1));
  Int m = x.dim(0), n = x.dim(1), lda = std::max(1, m);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(tau, x.count, {std::min(m, n)}, "tau"));
  return CallEach<T>(frame, x.count, nullptr, [&](int64_t i, T* work, Int* lwork, Int* info) {
    return Call<T, "geqrf">(&m, &n, x.at(i), &lda, tau.at(i), work, lwork, info);
  });
}

template <typename T>
Status Geqp3(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(2, 3));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> pivots, frame.InPlace<Int>(1, 1, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> tau, frame.Ret<T>(2, 1));
  Int m = x.dim(0), n = x.dim(1), lda = std::max(1, m);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(pivots, x.count, {n}, "pivots"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(tau, x.count, {std::min(m, n)}, "tau"));
  std::vector<RealOf<T>> real(kIsComplex<T> ? 2 * std::max<size_t>(1, static_cast<size_t>(n)) : 0);
  const auto call = [&](int64_t i, T* work, Int* lwork, Int* info) {
    if constexpr (kIsComplex<T>) {
      return Call<T, "geqp3">(&m, &n, x.at(i), &lda, pivots.at(i), tau.at(i), work, lwork, real.data(), info);
    } else {
      return Call<T, "geqp3">(&m, &n, x.at(i), &lda, pivots.at(i), tau.at(i), work, lwork, info);
    }
  };
  return CallEach<T>(frame, x.count, nullptr, call);
}

template <typename T>
Status Orgqr(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(2, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> tau, frame.Arg<T>(1, 1));
  Int m = x.dim(0), n = x.dim(1), k = tau.dim(0), lda = std::max(1, m);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(tau, x.count, {k}, "tau"));
  const auto call = [&](int64_t i, T* work, Int* lwork, Int* info) {
    if constexpr (kIsComplex<T>) {
      return Call<T, "ungqr">(&m, &n, &k, x.at(i), &lda, tau.at(i), work, lwork, info);
    } else {
      return Call<T, "orgqr">(&m, &n, &k, x.at(i), &lda, tau.at(i), work, lwork, info);
    }
  };
  return CallEach<T>(frame, x.count, nullptr, call);
}

template <typename T>
Status Potrf(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 2));
  CALLOUT_ASSIGN_OR_RETURN(char uplo, frame.Flag("uplo", "LU"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(1, 0));
  Int n = x.dim(0), lda = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectSame(n, x.dim(1), "columns of a square matrix"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  for (int64_t i = 0; i < x.count; ++i) {
    CALLOUT_RETURN_IF_ERROR((Call<T, "potrf">(&uplo, &n, x.at(i), &lda, info.at(i), kOne)));
  }
  return OkStatus();
}

template <typename T>
Status Gehrd(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 3));
  CALLOUT_ASSIGN_OR_RETURN(Int low, frame.Integer("low"));
  CALLOUT_ASSIGN_OR_RETURN(Int high, frame.Integer("high"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> tau, frame.Ret<T>(1, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(2, 0));
  Int n = x.dim(0), lda = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectSame(n, x.dim(1), "columns of a square matrix"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(tau, x.count, {std::max(0, n - 1)}, "tau"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  return CallEach<T>(frame, x.count, &info, [&](int64_t i, T* work, Int* lwork, Int* out) {
    return Call<T, "gehrd">(&n, &low, &high, x.at(i), &lda, tau.at(i), work, lwork, out);
  });
}

template <typename T>
Status Sytrd(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 5));
  CALLOUT_ASSIGN_OR_RETURN(char uplo, frame.Flag("uplo", "LU"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<RealOf<T>> d, frame.Ret<RealOf<T>>(1, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<RealOf<T>> e, frame.Ret<RealOf<T>>(2, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> tau, frame.Ret<T>(3, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(4, 0));
  Int n = x.dim(0), lda = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectSame(n, x.dim(1), "columns of a square matrix"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(d, x.count, {n}, "d"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(e, x.count, {std::max(0, n - 1)}, "e"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(tau, x.count, {std::max(0, n - 1)}, "tau"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  const auto call = [&](int64_t i, T* work, Int* lwork, Int* out) {
    if constexpr (kIsComplex<T>) {
      return Call<T, "hetrd">(&uplo, &n, x.at(i), &lda, d.at(i), e.at(i), tau.at(i), work, lwork, out, kOne);
    } else {
      return Call<T, "sytrd">(&uplo, &n, x.at(i), &lda, d.at(i), e.at(i), tau.at(i), work, lwork, out, kOne);
    }
  };
  return CallEach<T>(frame, x.count, &info, call);
}

CALLOUT_LAPACK_INSTANCES(Getrf)
CALLOUT_LAPACK_INSTANCES(Geqrf)
CALLOUT_LAPACK_INSTANCES(Geqp3)
CALLOUT_LAPACK_INSTANCES(Orgqr)
CALLOUT_LAPACK_INSTANCES(Potrf)
CALLOUT_LAPACK_INSTANCES(Gehrd)
CALLOUT_LAPACK_INSTANCES(Sytrd)

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
