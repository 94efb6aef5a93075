// SPDX-License-Identifier: Apache-2.0
//
// Linear equations; see factorize.h.
#pragma once

#include "host/lapack/frame.h"

namespace callout::internal::lapack {

/// a[k,k], b[m,n] -> b: op(a) x = b, or x op(a) = b. Attributes side, uplo, trans_x, diag.
template <typename T>
Status Trsm(const Frame& frame);
/// Diagonals dl[n] (the first is not used), d[n], du[n] (nor is the last), b[n,k] -> dl, d, du, b, info.
template <typename T>
Status Gtsv(const Frame& frame);

}  // namespace callout::internal::lapack
