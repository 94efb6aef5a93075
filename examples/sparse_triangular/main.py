# SPDX-License-Identifier: Apache-2.0
"""Solves sparse triangular systems by a C++ and by a Numba kernel. Most preconditioners need this, and JAX lacks it.

The matrix is the lower triangle of the Laplacian on a grid. Usage: python examples/sparse_triangular/main.py
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kernels
import numpy as np

SIDE, BATCH = 48, 8
ROWS_OF = SIDE * SIDE


def grid_matrix() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the lower triangle of a grid's Laplacian: 4 on the diagonal, -1 for the neighbours above and to the left."""
    starts, columns, values = [0], [], []
    for i in range(ROWS_OF):
        neighbours = [i - SIDE] * (i >= SIDE) + [i - 1] * (i % SIDE > 0)
        columns += [*neighbours, i]
        values += [-1.0] * len(neighbours) + [4.0]
        starts.append(len(columns))
    return np.array(starts, np.int32), np.array(columns, np.int32), np.array(values, np.float32)


def milliseconds(f: Callable[..., Any], *args: Any) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main() -> None:
    starts, columns, values = map(jnp.asarray, grid_matrix())
    b = jax.random.normal(jax.random.key(0), (BATCH, ROWS_OF))
    ways = {
        "callout.cpp": kernels.in_cpp(),
        "callout.numba": kernels.in_numba(),
        "jax, row by row": kernels.row_by_row_in_jax(3),
        "jax, as a dense matrix": kernels.dense_in_jax(),
        "jax.pure_callback, Numba": kernels.in_python_callback(),
    }
    print(f"{BATCH} right-hand sides, {ROWS_OF} rows      solve, ms   and gradient, ms")
    results = {}
    for name, solve in ways.items():
        batched = jax.vmap(solve, in_axes=(None, None, None, 0))
        f = jax.jit(batched)
        x = jax.block_until_ready(f(starts, columns, values, b))
        line = f"{name:36} {milliseconds(f, starts, columns, values, b):12.3f}"
        gradient = None
        if "callback" not in name:
            g = jax.jit(jax.grad(lambda v, b, f=batched: (f(starts, columns, v, b) ** 2).sum(), argnums=(0, 1)))
            gradient = jax.block_until_ready(g(values, b))
            line += f" {milliseconds(g, values, b):18.3f}"
        print(line)
        results[name] = x, gradient
    expected, derivative = results["jax, as a dense matrix"]
    for name, (x, gradient) in results.items():
        np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5, err_msg=name)
        for one, other in zip(gradient or (), derivative, strict=bool(gradient)):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3, err_msg=name)
    print("all agree")


if __name__ == "__main__":
    main()
