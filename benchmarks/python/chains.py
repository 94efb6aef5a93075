# SPDX-License-Identifier: Apache-2.0
"""Measures a tap's cost for the program around it: chains of arithmetic with a tap behind each step."""

import time
from collections.abc import Callable

import callout
import jax
import jax.numpy as jnp
import numpy as np
from measure import Contender, Refused, Row, compare
from program import EMPTY, JAX, OURS

LENGTHS = (10, 100, 1000)
SLOW_BEYOND = 100  # without the patch, and with JAX's callbacks, time grows quadratically
SIZE = 1000
Tap = Callable[[jax.Array], object]


def _ignored(x: jax.Array) -> None:
    callout.tap(NULL, x)


def _jax(x: jax.Array) -> None:
    jax.debug.callback(_nothing, x)


def _nothing(_: object) -> None:
    pass


NULL = callout.sinks.Null()
TAPS: dict[str, tuple[str, Tap, bool]] = {
    "no taps": (EMPTY, lambda x: None, True),
    "callout.tap": (OURS, _ignored, True),
    "callout.tap, patch_tapped_values=False": (OURS, _ignored, False),
    "jax.debug.callback": (JAX, _jax, True),
}


class Chain:
    """A round compiles the program of `length` steps, and runs it."""

    def __init__(self, length: int, tap: Tap, patched: bool):
        self.length, self.tap, self.patched = length, tap, patched
        self.x = jnp.linspace(0, 1, SIZE, dtype=jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(self.length):
            x = jnp.sin(x) * 1.01
            self.tap(x)
        return x

    def play(self) -> dict[str, float]:
        callout.config.patch_tapped_values = self.patched
        try:
            start = time.perf_counter()
            program = jax.jit(lambda x: self(x)).lower(self.x).compile()
            compiled = time.perf_counter() - start
        finally:
            callout.config.patch_tapped_values = True
        got = program(self.x).block_until_ready()
        taken = []
        for _ in range(7):
            start = time.perf_counter()
            program(self.x).block_until_ready()
            taken.append(time.perf_counter() - start)
            callout.barrier_wait()
        expected = np.asarray(self.x)
        for _ in range(self.length):
            expected = np.sin(expected) * np.float32(1.01)
        if not np.allclose(got, expected, rtol=1e-4):
            raise Refused("the result is wrong")
        return {"traced and compiled": compiled * 1e3, "run": float(np.median(taken)) * 1e3}


def run(rounds: int) -> list[Row]:
    rows = []
    for length in LENGTHS:
        contenders = [
            Contender(label, role, Chain(length, tap, patched).play)
            for label, (role, tap, patched) in TAPS.items()
            if length <= SLOW_BEYOND or (role != JAX and patched)
        ]
        rows.append(compare("chains", f"{length} steps of f32[1000], a tap behind each", "ms", contenders, rounds))
    return rows
