// SPDX-License-Identifier: Apache-2.0
//
// Singular values, eigenvalues and Schur forms; see factorize.h. R is the real type of T, C the complex one.
#pragma once

#include "host/lapack/frame.h"

namespace callout::internal::lapack {

/// x[m,n] -> x, s R[min(m,n)], u[m,*], vt[*,n], info. Attribute mode: A (all columns), S (the first ones), N (none: u
/// and vt are zeros).
template <typename T>
Status Gesdd(const Frame& frame);
/// As Gesdd, by QR iterations.
template <typename T>
Status Gesvd(const Frame& frame);
/// x[n,n] -> x, w R[n], info. Attributes mode (V or N), uplo. xHEEVD if T is complex.
template <typename T>
Status Syevd(const Frame& frame);
/// x[n,n] -> w C[n] (for a real T its real and imaginary parts, two results), vl C[n,n], vr C[n,n], info. Attributes
/// compute_left and compute_right (V or N: zeros).
template <typename T>
Status Geev(const Frame& frame);
/// x[n,n] -> x, vs[n,n], w as of Geev, sdim, info. Attributes mode (V or N: zeros), sort (N).
template <typename T>
Status Gees(const Frame& frame);

}  // namespace callout::internal::lapack
