# SPDX-License-Identifier: Apache-2.0
"""Measures a foreign function by `callout.ffi` and by `jax.ffi`: in a loop, dispatched, and outside of jit."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from callout import ffi
from dispatch import Dispatch
from measure import Contender, Refused, Row, compare
from program import JAX, OURS, CallLoop, Method, like, steps

CALLS, DISPATCHES = steps("scalar", slow=False), 2_000


def _method(label: str, role: str, ffi_call: Callable[..., Any]) -> Method:
    return Method(label, role, lambda x: ffi_call("floor_copy", like(x))(x))


class Eager:
    """A round makes calls outside of jit, and waits for each."""

    def __init__(self, method: Method, count: int):
        self.method, self.count = method, count
        self.x = jnp.ones((), jnp.float32)
        method.apply(self.x).block_until_ready()

    def play(self) -> dict[str, float]:
        start = time.perf_counter()
        for _ in range(self.count):
            x = self.method.apply(self.x).block_until_ready()
        seconds = time.perf_counter() - start
        if float(x) != 1:
            raise Refused(f"the result is {float(x)}, not 1")
        return {"a call": seconds / self.count * 1e6}


def run(rounds: int) -> list[Row]:
    methods = [_method("callout.ffi.ffi_call", OURS, ffi.ffi_call), _method("jax.ffi.ffi_call", JAX, jax.ffi.ffi_call)]

    def row(key: str, title: str, make: Callable[[Method], Any]) -> Row:
        contenders = [Contender(method.label, method.role, make(method).play) for method in methods]
        return compare(f"ffi/{key}", title, "us", contenders, rounds)

    return [
        row("loop", "foreign function, f32 scalar in a loop", lambda m: CallLoop(m, (), CALLS, False)),
        row(
            "dispatch",
            "a jitted function with one foreign function, dispatched and run",
            lambda m: Dispatch(m, DISPATCHES),
        ),
        row("eager", "a foreign function outside of jit", lambda m: Eager(m, 500)),
    ]
