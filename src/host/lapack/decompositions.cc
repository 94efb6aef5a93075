// SPDX-License-Identifier: Apache-2.0
#include "host/lapack/decompositions.h"

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

template <typename T>
using ComplexOf = std::complex<RealOf<T>>;

// Eigenvalues: one complex result, or a real result for each part. The struct is not in an unnamed namespace, because a
// template of this folder captures it.
template <typename T>
struct Eigenvalues {
  Batch<T> first, second;

  Int results() const { return kIsComplex<T> ? 1 : 2; }
  Status Read(const Frame& frame, int64_t at, int64_t count, Int n) {
    CALLOUT_ASSIGN_OR_RETURN(first, frame.Ret<T>(at, 1));
    CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(first, count, {n}, "eigenvalues"));
    if constexpr (!kIsComplex<T>) {
      CALLOUT_ASSIGN_OR_RETURN(second, frame.Ret<T>(at + 1, 1));
      CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(second, count, {n}, "eigenvalues"));
    }
    return OkStatus();
  }
};

namespace {

// Unpacks eigenvectors: for a conjugate pair, LAPACK returns the real part in one column and the imaginary part in the
// next.
template <typename R>
void Unpack(Int n, const R* imaginary, const std::vector<R>& packed, std::complex<R>* out) {
  const auto rows = static_cast<size_t>(n);
  for (size_t j = 0; j < rows; ++j) {
    const bool is_pair = imaginary[j] != 0 && j + 1 < rows;
    for (size_t i = 0; i < rows; ++i) {
      const R real = packed[j * rows + i];
      if (!is_pair) {
        out[j * rows + i] = real;
        continue;
      }
      const R other = packed[(j + 1) * rows + i];
      out[j * rows + i] = {real, other};
      out[(j + 1) * rows + i] = {real, -other};
    }
    if (is_pair) ++j;
  }
}

}  // namespace

template <typename T>
Status Syevd(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 3));
  CALLOUT_ASSIGN_OR_RETURN(char mode, frame.Flag("mode", "VN"));
  CALLOUT_ASSIGN_OR_RETURN(char uplo, frame.Flag("uplo", "LU"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<RealOf<T>> w, frame.Ret<RealOf<T>>(1, 1));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(2, 0));
  Int n = x.dim(0), lda = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectSame(n, x.dim(1), "columns of a square matrix"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(w, x.count, {n}, "w"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  T size{};
  RealOf<T> real_size{};
  Int integer_size = 0, lwork = -1, lrwork = -1, liwork = -1, queried = 0;
  const auto call = [&](int64_t i, T* work, RealOf<T>* rwork, Int* iwork, Int* out) {
    if constexpr (kIsComplex<T>) {
      return Call<T, "heevd">(&mode, &uplo, &n, x.at(i), &lda, w.at(i), work, &lwork, rwork, &lrwork, iwork, &liwork,
                              out, kOne, kOne);
    } else {
      return Call<T, "syevd">(&mode, &uplo, &n, x.at(i), &lda, w.at(i), work, &lwork, iwork, &liwork, out, kOne, kOne);
    }
  };
  CALLOUT_RETURN_IF_ERROR(call(0, &size, &real_size, &integer_size, &queried));
  if (queried != 0) return frame.Refused(queried);
  std::vector<T> work = Workspace(size);
  std::vector<RealOf<T>> rwork = Workspace(real_size);
  std::vector<Int> iwork(static_cast<size_t>(std::max(1, integer_size)));
  lwork = static_cast<Int>(work.size());
  lrwork = static_cast<Int>(rwork.size());
  liwork = static_cast<Int>(iwork.size());
  for (int64_t i = 0; i < x.count; ++i) {
    CALLOUT_RETURN_IF_ERROR(call(i, work.data(), rwork.data(), iwork.data(), info.at(i)));
  }
  return OkStatus();
}

template <typename T>
Status Geev(const Frame& frame) {
  Eigenvalues<T> w;
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 3 + w.results()));
  CALLOUT_ASSIGN_OR_RETURN(char left, frame.Flag("compute_left", "VN"));
  CALLOUT_ASSIGN_OR_RETURN(char right, frame.Flag("compute_right", "VN"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.Arg<T>(0, 2));
  Int n = x.dim(0), ld = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectSame(n, x.dim(1), "columns of a square matrix"));
  CALLOUT_RETURN_IF_ERROR(w.Read(frame, 0, x.count, n));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<ComplexOf<T>> vl, frame.Ret<ComplexOf<T>>(w.results(), 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<ComplexOf<T>> vr, frame.Ret<ComplexOf<T>>(w.results() + 1, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(w.results() + 2, 0));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(vl, x.count, {n, n}, "vl"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(vr, x.count, {n, n}, "vr"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  const auto elements = static_cast<size_t>(x.stride);
  // A copy, because LAPACK overwrites its input and the operand shares no memory with a result.
  std::vector<T> matrix(std::max<size_t>(1, elements)), packed_left(matrix.size()), packed_right(matrix.size());
  std::vector<RealOf<T>> rwork(2 * std::max<size_t>(1, static_cast<size_t>(n)));
  const auto decompose = [&](int64_t i, T* work, Int* lwork, Int* out) {
    if constexpr (kIsComplex<T>) {
      return Call<T, "geev">(&left, &right, &n, matrix.data(), &ld, w.first.at(i), packed_left.data(), &ld,
                             packed_right.data(), &ld, work, lwork, rwork.data(), out, kOne, kOne);
    } else {
      return Call<T, "geev">(&left, &right, &n, matrix.data(), &ld, w.first.at(i), w.second.at(i), packed_left.data(),
                             &ld, packed_right.data(), &ld, work, lwork, out, kOne, kOne);
    }
  };
  return CallEach<T>(frame, x.count, &info, [&](int64_t i, T* work, Int* lwork, Int* out) -> Status {
    if (*lwork == -1) return decompose(i, work, lwork, out);
    std::copy_n(x.at(i), elements, matrix.data());
    CALLOUT_RETURN_IF_ERROR(decompose(i, work, lwork, out));
    if constexpr (kIsComplex<T>) {
      std::copy_n(packed_left.data(), elements, vl.at(i));
      std::copy_n(packed_right.data(), elements, vr.at(i));
    } else {
      Unpack(n, w.second.at(i), packed_left, vl.at(i));
      Unpack(n, w.second.at(i), packed_right, vr.at(i));
    }
    return OkStatus();
  });
}

template <typename T>
Status Gees(const Frame& frame) {
  Eigenvalues<T> w;
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 4 + w.results()));
  CALLOUT_ASSIGN_OR_RETURN(char mode, frame.Flag("mode", "VN"));
  CALLOUT_ASSIGN_OR_RETURN(char sort, frame.Flag("sort", "N"));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<T> vs, frame.Ret<T>(1, 2));
  Int n = x.dim(0), ld = std::max(1, n);
  CALLOUT_RETURN_IF_ERROR(frame.ExpectSame(n, x.dim(1), "columns of a square matrix"));
  CALLOUT_RETURN_IF_ERROR(w.Read(frame, 2, x.count, n));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> sorted, frame.Ret<Int>(2 + w.results(), 0));
  CALLOUT_ASSIGN_OR_RETURN(const Batch<Int> info, frame.Ret<Int>(3 + w.results(), 0));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(vs, x.count, {n, n}, "vs"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(sorted, x.count, {}, "sdim"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(info, x.count, {}, "info"));
  if (mode == 'N') std::fill_n(vs.data, vs.count * vs.stride, T{});
  void* const select = nullptr;
  std::vector<RealOf<T>> rwork(std::max<size_t>(1, static_cast<size_t>(n)));
  std::vector<Int> bwork(rwork.size());
  const auto call = [&](int64_t i, T* work, Int* lwork, Int* out) {
    if constexpr (kIsComplex<T>) {
      return Call<T, "gees">(&mode, &sort, select, &n, x.at(i), &ld, sorted.at(i), w.first.at(i), vs.at(i), &ld, work,
                             lwork, rwork.data(), bwork.data(), out, kOne, kOne);
    } else {
      return Call<T, "gees">(&mode, &sort, select, &n, x.at(i), &ld, sorted.at(i), w.first.at(i), w.second.at(i),
                             vs.at(i), &ld, work, lwork, bwork.data(), out, kOne, kOne);
    }
  };
  return CallEach<T>(frame, x.count, &info, call);
}

CALLOUT_LAPACK_INSTANCES(Syevd)
CALLOUT_LAPACK_INSTANCES(Geev)
CALLOUT_LAPACK_INSTANCES(Gees)

// The struct is not in an unnamed namespace, because a template of this folder captures it.
template <typename T>
struct SingularValues {
  char mode;
  Batch<T> x;
  Batch<RealOf<T>> s;
  Batch<T> u, vt;
  Batch<Int> info;
  Int m, n, lda, ldu, ldvt;
  size_t smaller, larger;
};

namespace {

template <typename T>
Result<SingularValues<T>> ReadFrame(const Frame& frame) {
  CALLOUT_RETURN_IF_ERROR(frame.ExpectCounts(1, 5));
  SingularValues<T> read;
  CALLOUT_ASSIGN_OR_RETURN(read.mode, frame.Flag("mode", "ASN"));
  CALLOUT_ASSIGN_OR_RETURN(read.x, frame.InPlace<T>(0, 0, 2));
  CALLOUT_ASSIGN_OR_RETURN(read.s, frame.Ret<RealOf<T>>(1, 1));
  CALLOUT_ASSIGN_OR_RETURN(read.u, frame.Ret<T>(2, 2));
  CALLOUT_ASSIGN_OR_RETURN(read.vt, frame.Ret<T>(3, 2));
  CALLOUT_ASSIGN_OR_RETURN(read.info, frame.Ret<Int>(4, 0));
  read.m = read.x.dim(0);
  read.n = read.x.dim(1);
  const Int smaller = std::min(read.m, read.n), larger = std::max(read.m, read.n);
  const int64_t count = read.x.count;
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(read.s, count, {smaller}, "s"));
  CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(read.info, count, {}, "info"));
  if (read.mode == 'N') {  // LAPACK does not touch u and vt, whatever their shapes are
    std::fill_n(read.u.data, read.u.count * read.u.stride, T{});
    std::fill_n(read.vt.data, read.vt.count * read.vt.stride, T{});
  } else {
    CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(read.u, count, {read.m, read.mode == 'A' ? read.m : smaller}, "u"));
    CALLOUT_RETURN_IF_ERROR(frame.ExpectDims(read.vt, count, {read.mode == 'A' ? read.n : smaller, read.n}, "vt"));
  }
  read.lda = read.ldu = std::max(1, read.m);
  read.ldvt = std::max(1, read.mode == 'S' ? smaller : read.n);
  read.smaller = static_cast<size_t>(smaller);
  read.larger = static_cast<size_t>(larger);
  return read;
}

}  // namespace

template <typename T>
Status Gesdd(const Frame& frame) {
  CALLOUT_ASSIGN_OR_RETURN(SingularValues<T> read, ReadFrame<T>(frame));
  // The sizes of the real and integer workspaces are from LAPACK, xGESDD, "Arguments".
  const size_t real = std::max(5 * read.smaller * read.smaller + 7 * read.smaller,
                               2 * read.larger * read.smaller + 2 * read.smaller * read.smaller + read.smaller);
  std::vector<RealOf<T>> rwork(kIsComplex<T> ? std::max<size_t>(1, real) : 0);
  std::vector<Int> iwork(std::max<size_t>(1, 8 * read.smaller));
  return CallEach<T>(frame, read.x.count, &read.info, [&](int64_t i, T* work, Int* lwork, Int* info) {
    auto& r = read;
    if constexpr (kIsComplex<T>) {
      return Call<T, "gesdd">(&r.mode, &r.m, &r.n, r.x.at(i), &r.lda, r.s.at(i), r.u.at(i), &r.ldu, r.vt.at(i), &r.ldvt,
                              work, lwork, rwork.data(), iwork.data(), info, kOne);
    } else {
      return Call<T, "gesdd">(&r.mode, &r.m, &r.n, r.x.at(i), &r.lda, r.s.at(i), r.u.at(i), &r.ldu, r.vt.at(i), &r.ldvt,
                              work, lwork, iwork.data(), info, kOne);
    }
  });
}

template <typename T>
Status Gesvd(const Frame& frame) {
  CALLOUT_ASSIGN_OR_RETURN(SingularValues<T> read, ReadFrame<T>(frame));
  std::vector<RealOf<T>> rwork(kIsComplex<T> ? std::max<size_t>(1, 5 * read.smaller) : 0);
  return CallEach<T>(frame, read.x.count, &read.info, [&](int64_t i, T* work, Int* lwork, Int* info) {
    auto& r = read;
    if constexpr (kIsComplex<T>) {
      return Call<T, "gesvd">(&r.mode, &r.mode, &r.m, &r.n, r.x.at(i), &r.lda, r.s.at(i), r.u.at(i), &r.ldu, r.vt.at(i),
                              &r.ldvt, work, lwork, rwork.data(), info, kOne, kOne);
    } else {
      return Call<T, "gesvd">(&r.mode, &r.mode, &r.m, &r.n, r.x.at(i), &r.lda, r.s.at(i), r.u.at(i), &r.ldu, r.vt.at(i),
                              &r.ldvt, work, lwork, info, kOne, kOne);
    }
  });
}

CALLOUT_LAPACK_INSTANCES(Gesdd)
CALLOUT_LAPACK_INSTANCES(Gesvd)

}  // namespace callout::internal::lapack
