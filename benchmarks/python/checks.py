# SPDX-License-Identifier: Apache-2.0
"""Measures a check that holds, in a `fori_loop`, beside Equinox's `error_if`, checkify, and an empty loop."""

import time
from collections.abc import Callable
from typing import Any

import callout
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from measure import Contender, Refused, Row, compare
from program import EMPTY, FLOOR, JAX, OURS

EQUINOX = "equinox"
Step = Callable[[jax.Array], jax.Array]


class CheckedLoop:
    """A round is one run of the program, including the wait. With a negative number, the checks must fail."""

    def __init__(self, step: Step, shape: tuple[int, ...], count: int, wrap: Callable[..., Any], fails: bool = True):
        def program(x: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, count, lambda _, x: step(x) + 1, x)

        self.program, self.count, self.x = wrap(program), count, jnp.zeros(shape, jnp.float32)
        if fails != self._fails():
            raise RuntimeError(f"a check {'holds' if fails else 'fails'} where it must not")
        self.play()

    def _fails(self) -> bool:
        try:
            jax.block_until_ready(self.program(self.x - 1))
        except Exception:  # noqa: BLE001 - each contender has its own class
            return True
        return False

    def play(self) -> dict[str, float]:
        start = time.perf_counter()
        out = jax.block_until_ready(self.program(self.x))
        seconds = time.perf_counter() - start
        if np.any(np.asarray(out) != self.count):
            raise Refused(f"the result is {np.ravel(out)[0]}, not {self.count}")
        return {"a step": seconds / self.count * 1e6}


def _checkified(program: Callable[..., Any]) -> Callable[..., Any]:
    checked = jax.jit(checkify.checkify(program))

    def run(x: jax.Array) -> jax.Array:
        error, out = checked(x)
        error.throw()
        return out

    return run


def _with_checkify(x: jax.Array) -> jax.Array:
    checkify.check(jnp.all(x >= 0), "a negative number")
    return x


def _floor(x: jax.Array) -> jax.Array:
    jax.ffi.ffi_call("floor_look", (), has_side_effect=True)(x < 0)
    return x


def _steps(skipped: dict[str, str]) -> list[tuple[str, str, Step, Callable[..., Any]]]:
    steps: list[tuple[str, str, Step, Callable[..., Any]]] = [
        ("no check", EMPTY, lambda x: x, jax.jit),
        ("floor: C++ FFI handler", FLOOR, _floor, jax.jit),
        ("callout.error_if", OURS, lambda x: callout.error_if(x, x < 0, "a negative number"), jax.jit),
        ("callout.error_if, shows the value", OURS, lambda x: callout.error_if(x, x < 0, "{value}"), jax.jit),
        ("checkify.check", JAX, _with_checkify, _checkified),
    ]
    try:
        import equinox
    except ImportError as error:
        skipped["equinox.error_if"] = f"not installed: {error}"
        return steps
    return [*steps, ("equinox.error_if", EQUINOX, lambda x: equinox.error_if(x, x < 0, "negative"), jax.jit)]


def run(rounds: int, skipped: dict[str, str]) -> list[Row]:
    rows = []
    for name, shape, count in (("scalar", (), 20_000), ("256 KB", (1 << 16,), 500)):
        contenders = [
            Contender(label, role, CheckedLoop(step, shape, count, wrap, role not in (EMPTY, FLOOR)).play)
            for label, role, step, wrap in _steps(skipped)
        ]
        rows.append(compare(f"check/{name}", f"a check that holds, f32 {name} in a loop", "us", contenders, rounds))
    return rows
