# SPDX-License-Identifier: Apache-2.0
"""Sparse substitution in C++, in Numba, in JAX itself, and by `jax.pure_callback`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numba
import numpy as np
from callout.numba import numba_kernel

# (starts, columns, values, b) -> x
Solve = Callable[..., jax.Array]


def derivatives(solve: Solve, solve_transposed: Solve) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns the rule for `vjp=`: with L^T u = ct, the cotangent of b is u, and that of L is -u x^T at L's elements."""

    def forward(starts, columns, values, b):
        x = solve(starts, columns, values, b)
        return x, (starts, columns, values, x)

    def backward(kept, ct):
        starts, columns, values, x = kept
        u = solve_transposed(starts, columns, values, ct)
        rows = jnp.repeat(jnp.arange(x.size), jnp.diff(starts), total_repeat_length=values.size)
        return None, None, -u[rows] * x[columns], u

    return forward, backward


def in_cpp() -> Solve:
    module = callout.cpp.load(Path(__file__).parent / "solve.cc")
    settings = {"out": lambda starts, columns, values, b: b, "vmap_method": "parallel"}
    solve, transposed = module.solve.options(**settings), module.solve_transposed.options(**settings)
    return solve.options(vjp=derivatives(solve, transposed))


@numba.njit
def substitute(starts, columns, values, b, x):
    for i in range(b.size):
        diagonal = starts[i + 1] - 1
        total = b[i]
        for k in range(starts[i], diagonal):
            total -= values[k] * x[columns[k]]
        x[i] = total / values[diagonal]


@numba.njit
def substitute_transposed(starts, columns, values, b, x):
    x[:] = b
    for i in range(b.size - 1, -1, -1):
        diagonal = starts[i + 1] - 1
        x[i] /= values[diagonal]
        for k in range(starts[i], diagonal):
            x[columns[k]] -= values[k] * x[i]


def in_numba() -> Solve:
    solve, transposed = (
        numba_kernel(kernel, lambda starts, columns, values, b: b, vmap_method="parallel")
        for kernel in (substitute, substitute_transposed)
    )
    return solve.options(vjp=derivatives(solve, transposed))


def dense_in_jax() -> Solve:
    def solve(starts, columns, values, b):
        rows = jnp.repeat(jnp.arange(b.size), jnp.diff(starts), total_repeat_length=values.size)
        matrix = jnp.zeros((b.size, b.size)).at[rows, columns].set(values)
        return jax.scipy.linalg.solve_triangular(matrix, b, lower=True)

    return solve


def row_by_row_in_jax(width: int) -> Solve:
    """Returns a loop over rows of at most `width` elements, which JAX differentiates."""

    def solve(starts, columns, values, b):
        def row(x, i):
            k = starts[i] + jnp.arange(width)
            below = jnp.where(k < starts[i + 1] - 1, values[k], 0)
            x_i = (b[i] - below @ x[columns[k]]) / values[starts[i + 1] - 1]
            return x.at[i].set(x_i), None

        return jax.lax.scan(row, jnp.zeros_like(b), jnp.arange(b.size))[0]

    return solve


def in_python_callback() -> Solve:
    """Returns the compiled Numba function behind `jax.pure_callback`, without a derivative."""

    def on_host(*args):
        arrays = [np.asarray(arg) for arg in args]
        x = np.empty_like(arrays[-1])
        substitute(*arrays, x)
        return x

    def solve(starts, columns, values, b):
        result = jax.ShapeDtypeStruct(b.shape, b.dtype)
        return jax.pure_callback(on_host, result, starts, columns, values, b, vmap_method="sequential")

    return solve
