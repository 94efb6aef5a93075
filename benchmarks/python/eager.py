# SPDX-License-Identifier: Apache-2.0
"""Measures calls and taps outside of programs, beside JAX's own, and beside an addition as the cost of an operation."""

import time
from collections.abc import Callable
from typing import Any

import callout
import jax
import jax.numpy as jnp
from dropins import DEBUG, IO, PURE
from measure import Contender, Row, compare
from program import EMPTY, OURS, identity


def _contender(label: str, role: str, call: Callable[[jax.Array], Any], count: int) -> Contender:
    x = jnp.zeros((), jnp.float32)
    call(x)

    def play() -> dict[str, float]:
        start = time.perf_counter()
        for _ in range(count):
            call(x)
        seconds = time.perf_counter() - start
        callout.barrier_wait()
        jax.effects_barrier()
        return {"a call": seconds / count * 1e6}

    return Contender(label, role, play)


def _ignore(_: Any) -> None:
    pass


def run(rounds: int) -> list[Row]:
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    plain = [_contender(label, role, lambda x, f=f: f(identity, shape, x), 300) for label, role, f in (*PURE, *IO)]
    ordered = [
        _contender(f"{label}, ordered", role, lambda x, f=f: f(identity, shape, x, ordered=True), 300)
        for label, role, f in IO
    ]
    shown = [_contender(label, role, lambda x, f=f: f(_ignore, x), 300) for label, role, f in DEBUG]
    null = callout.sinks.Null()
    taps = [
        _contender(label, OURS, lambda x, target=target: callout.tap(target, x), 300)
        for label, target in (("callout.tap", _ignore), ("callout.tap to a sink", null))
    ]
    addition = _contender("x + 1", EMPTY, lambda x: x + 1, 300)
    return [
        compare("eager/results", "a callback with a result, eager", "us", [addition, *plain, *ordered], rounds),
        compare("eager/none", "a callback without a result, eager", "us", [addition, *shown, *taps], rounds),
    ]
