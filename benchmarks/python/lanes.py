# SPDX-License-Identifier: Apache-2.0
"""Measures `vmap` of a kernel of about a millisecond, with lanes in sequence, and in parallel on XLA's threads."""

import time
from collections.abc import Callable

import callout
import jax
import jax.numpy as jnp
import numpy as np
from kernel_methods import NUMBA_KERNEL
from measure import Contender, Refused, Row, compare
from program import JAX, OURS

LANES, SIZE = 16, 1 << 18
SCALAR = jax.ShapeDtypeStruct((), jnp.float32)

# Each step needs the previous one, so that the loop cannot be vectorised.
SOURCE = """
#include "callout/kernel.h"

void settle(callout::In<float, 1> x, callout::Out<float, 0> y) {
  float v = 0;
  for (int64_t i = 0; i < x.size(); ++i) v = (v + x[i]) / (1 + v * v);
  y() = v;
}
CALLOUT_KERNEL(settle);
"""


def expected(x: np.ndarray) -> np.ndarray:
    v = np.zeros(len(x), np.float32)
    for column in np.ascontiguousarray(x.T):
        v = (v + column) / (1 + v * v)
    return v


class Lanes:
    """A round calls the jitted `vmap` once, and waits."""

    def __init__(self, function: Callable[[jax.Array], jax.Array], x: np.ndarray, wanted: np.ndarray):
        self.program, self.x, self.wanted = jax.jit(jax.vmap(function)), jnp.asarray(x), wanted

    def play(self) -> dict[str, float]:
        start = time.perf_counter()
        y = self.program(self.x).block_until_ready()
        seconds = time.perf_counter() - start
        if not np.allclose(y, self.wanted, rtol=1e-4):
            raise Refused(f"the results are {np.asarray(y)[:2]} ..., not {self.wanted[:2]} ...")
        return {"program": seconds * 1e3}


def _numba() -> tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], np.float32]]:
    """Returns the kernel, and a Python function for JAX's callback."""
    import numba

    @numba.njit
    def settled(x):
        v = np.float32(0)
        one = np.float32(1)
        for i in range(x.size):
            v = (v + x[i]) / (one + v * v)
        return v

    @numba.njit
    def settle(x, y):
        y[()] = settled(x)

    return callout.numba.numba_kernel(settle, SCALAR), lambda x: np.float32(settled(np.asarray(x)))


def _functions(skipped: dict[str, str]) -> list[tuple[str, str, Callable[[jax.Array], jax.Array]]]:
    kernels = {"callout.cpp": callout.cpp.load_inline(SOURCE).settle}
    host = None
    if NUMBA_KERNEL not in skipped:
        kernels[NUMBA_KERNEL], host = _numba()
    functions = [
        (f"{label}, {method}", OURS, kernel.options(vmap_method=method))
        for label, kernel in kernels.items()
        for method in ("sequential", "parallel")
    ]
    if host is not None:
        pure = lambda x: jax.pure_callback(host, SCALAR, x, vmap_method="sequential")  # noqa: E731
        functions.append(("jax.pure_callback of a Numba function, sequential", JAX, pure))
    return functions


def run(rounds: int, skipped: dict[str, str]) -> Row:
    x = np.random.default_rng(0).random((LANES, SIZE), np.float32)
    wanted = expected(x)
    contenders = [Contender(label, role, Lanes(f, x, wanted).play) for label, role, f in _functions(skipped)]
    return compare("lanes", f"vmap of a kernel of f32[{SIZE}] over {LANES} lanes", "ms", contenders, rounds)
