// SPDX-License-Identifier: Apache-2.0
//
// LAPACK's factorisations as the targets lapack_*_ffi to which jax.numpy.linalg and jax.lax.linalg lower on CPU (jax
// 0.10 to 0.12), and solvers of linear equations. Batches are column-major. The program checks `info`, which is
// LAPACK's. T: float, double or complex of them.
#pragma once

#include "host/lapack/frame.h"

namespace callout::internal::lapack {

/// x[m,n] -> x, pivots s32[min(m,n)] from 1 on, info.
template <typename T>
Status Getrf(const Frame& frame);
/// x[m,n] -> x, tau[min(m,n)].
template <typename T>
Status Geqrf(const Frame& frame);
/// x[m,n], pivots s32[n] -> x, pivots, tau[min(m,n)].
template <typename T>
Status Geqp3(const Frame& frame);
/// x[m,n], tau[k] -> x: the first n columns of Q. xUNGQR if T is complex.
template <typename T>
Status Orgqr(const Frame& frame);
/// x[n,n] -> x, info. Attribute uplo.
template <typename T>
Status Potrf(const Frame& frame);
/// x[n,n] -> x, tau[n-1], info. Attributes low, high, from 1 on.
template <typename T>
Status Gehrd(const Frame& frame);
/// x[n,n] -> x, d[n], e[n-1] (both real), tau[n-1], info. Attribute uplo. xHETRD if T is complex.
template <typename T>
Status Sytrd(const Frame& frame);

/// a[k,k], b[m,n] -> b: op(a) x = b, or x op(a) = b. Attributes side, uplo, trans_x, diag.
template <typename T>
Status Trsm(const Frame& frame);
/// Diagonals dl[n] (the first element is unused), d[n], du[n] (the last is unused), b[n,k] -> dl, d, du, b, info.
template <typename T>
Status Gtsv(const Frame& frame);

// Singular values, eigenvalues and Schur forms. R is the real type of T, C the complex one.

/// x[m,n] -> x, s R[min(m,n)], u[m,*], vt[*,n], info. Attribute mode: A (all columns), S (the first ones), N (none: u
/// and vt are zeros).
template <typename T>
Status Gesdd(const Frame& frame);
/// Like Gesdd, but by QR iterations.
template <typename T>
Status Gesvd(const Frame& frame);
/// x[n,n] -> x, w R[n], info. Attributes mode (V or N), uplo. xHEEVD if T is complex.
template <typename T>
Status Syevd(const Frame& frame);
/// x[n,n] -> w C[n] (for a real T two results: the real and the imaginary parts), vl C[n,n], vr C[n,n], info.
/// Attributes compute_left and compute_right (V or N: zeros).
template <typename T>
Status Geev(const Frame& frame);
/// x[n,n] -> x, vs[n,n], w as in Geev, sdim, info. Attributes mode (V or N: zeros), sort (N).
template <typename T>
Status Gees(const Frame& frame);

}  // namespace callout::internal::lapack
