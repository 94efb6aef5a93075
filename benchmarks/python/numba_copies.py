# SPDX-License-Identifier: Apache-2.0
"""The identity of a scalar and of a vector as Numba kernels."""

import numba


@numba.njit
def copy_scalar(x, y):
    y[()] = x[()]


@numba.njit
def copy_vector(x, y):
    for i in range(x.size):
        y[i] = x[i]
