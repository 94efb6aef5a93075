// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "host/lapack/decompose.h"
#include "host/lapack/instances.h"
#include "host/lapack/routines.h"

namespace callout::internal::lapack {

// Not in an unnamed namespace: a template of the folder captures it.
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
  if (read.mode == 'N') {  // whatever their shapes are, LAPACK does not touch them
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
  // Sizes of the real and integer workspaces: LAPACK, xGESDD, "Arguments".
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
