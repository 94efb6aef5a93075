# SPDX-License-Identifier: Apache-2.0
"""Measures how long a new kernel takes to compile, and to return its first result in a jitted function."""

import itertools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np
from kernel_methods import NUMBA_KERNEL
from measure import Contender, Refused, Row, compare
from program import EMPTY, OURS, like

COLD, CACHED = "callout.cpp.load_inline, nothing cached", "callout.cpp.load_inline, in the cache"
SIZE = 16
_numbers = itertools.count(1)

SOURCE = """
#include "callout/kernel.h"

void add(callout::In<float> x, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + NUMBER;
}
CALLOUT_KERNEL(add);
"""


def _cpp(number: int) -> Callable[[jax.Array], jax.Array]:
    return callout.cpp.load_inline(SOURCE.replace("NUMBER", str(number))).add


def _cold(number: int) -> Callable[[jax.Array], jax.Array]:
    before = callout.config.cache_dir
    with tempfile.TemporaryDirectory() as folder:
        callout.config.cache_dir = folder
        try:
            return _cpp(number)
        finally:
            callout.config.cache_dir = before


def _numba(number: int) -> Callable[[jax.Array], jax.Array]:
    """Returns a Numba kernel, which is compiled when it is traced."""
    import numba

    @numba.njit
    def add(x, y):
        for i in range(x.size):
            y[i] = x[i] + number

    kernel = callout.numba.numba_kernel(add, like)
    jax.eval_shape(kernel, jax.ShapeDtypeStruct((SIZE,), jnp.float32))
    return kernel


def _jax(number: int) -> Callable[[jax.Array], jax.Array]:
    return lambda x: x + number


class Compiling:
    """A round makes a kernel, and calls it for the first time. `known`: every round uses the same kernel."""

    def __init__(self, make: Callable[[int], Callable[[jax.Array], jax.Array]], known: bool = False):
        self.make, self.known = make, next(_numbers) if known else 0
        self.x = jnp.zeros(SIZE, jnp.float32)
        self.kept: list[Any] = []  # keeps programs, so that a round does not include their destruction

    def play(self) -> dict[str, float]:
        number = self.known or next(_numbers)
        start = time.perf_counter()
        kernel = self.make(number)
        compiled = time.perf_counter() - start
        program = jax.jit(lambda x: kernel(x))
        y = program(self.x).block_until_ready()
        first = time.perf_counter() - start
        self.kept += [kernel, program]
        if np.any(np.asarray(y) != number):
            raise Refused(f"the result is {y}, not {number}")
        figures = {"first result": first * 1e3}
        return figures if self.make is _jax else {"compiled": compiled * 1e3, **figures}


def run(rounds: int, skipped: dict[str, str]) -> Row:
    contenders = [
        Contender(COLD, OURS, Compiling(_cold).play),
        Contender(CACHED, OURS, Compiling(_cpp, known=True).play),
    ]
    if NUMBA_KERNEL not in skipped:
        label = "callout.numba, a new function traced"
        contenders.append(Contender(label, OURS, Compiling(_numba).play, "not the process's first"))
    contenders.append(Contender("jax.jit, no kernel", EMPTY, Compiling(_jax).play))
    return compare("compile", "a kernel of one function made, then called for the first time", "ms", contenders, rounds)
