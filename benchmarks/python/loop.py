# SPDX-License-Identifier: Apache-2.0
"""One call, and one tap, in a `fori_loop`: on the thread that calls the program, and on a thread of XLA's pool."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
import numpy as np
from measure import Contender, Refused, Row, compare
from methods import OURS, Method, call_methods, tap_methods

OPERANDS = {"scalar": (), "1 KB": (256,), "1 MB": (1 << 18,)}
# Enough work for XLA to run a program on its pool; a program without is run by the thread that calls it.
WORK = np.full((128, 128), 1 / 128, np.float32)
# About a millisecond.
MUCH_WORK = np.full((384, 384), 1 / 384, np.float32)


def make_program(
    method: Method, shape: tuple[int, ...], n: int, pool: bool, spaced: bool
) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """x, work -> (x + n in its first element, the number of the thread that ran it). `spaced`: with work before each
    call."""

    def step(carry, work):
        x, w = carry
        if spaced:
            w = w @ work
            x = add_to_first(x, 0 * w[0, 0])
        return add_to_first(method.apply(x), 1), w

    @jax.jit
    def program(x, work):
        if pool:
            x = add_to_first(x, 0 * (work @ work)[0, 0])
        x, _ = jax.lax.fori_loop(0, n, lambda _, carry: step(carry, work), (x, work))
        first = x if x.ndim == 0 else x[0]
        return x, jax.ffi.ffi_call("floor_thread_id", jax.ShapeDtypeStruct((), jnp.int32))(first)

    return program


def add_to_first(x: jax.Array, y: jax.Array | int) -> jax.Array:
    return x + y if x.ndim == 0 else x.at[0].add(y)


class Loop:
    """A contender: one round is one run of the program, waited for, and for taps also delivered."""

    def __init__(self, method: Method, shape: tuple[int, ...], n: int, pool: bool, spaced: bool = False):
        self.method, self.n, self.pool = method, n, pool or spaced
        self.program = make_program(method, shape, n, pool, spaced)
        self.x = jnp.zeros(shape, jnp.float32)
        self.work = jnp.asarray(MUCH_WORK if spaced else WORK)
        jax.block_until_ready((self.x, self.work))

    def play(self) -> dict[str, float]:
        received = self.method.received
        before = received() if received else 0
        start = time.perf_counter()
        x, thread = self.program(self.x, self.work)
        x.block_until_ready()
        program = time.perf_counter() - start
        figures = {"program": program / self.n * 1e6}
        if received:
            callout.barrier_wait()
            jax.effects_barrier()
            figures["delivered"] = (time.perf_counter() - start) / self.n * 1e6
            self._check_count(received() - before)
        self._check_result(float(np.asarray(x).flat[0]), int(thread))
        return figures

    def _check_result(self, first: float, thread: int) -> None:
        if first != self.n:
            raise Refused(f"the result is {first}, not {self.n}")
        inline = thread == threading.get_native_id()
        wanted_inline = not self.pool or self.method.synchronous
        if inline != wanted_inline:
            raise Refused(f"it ran on {'the calling thread' if inline else 'a pool thread'}")

    def _check_count(self, count: int) -> None:
        if count != self.n:
            raise Refused(f"{count} records arrived, not {self.n}")
        if drops := sum(c["drops"] for c in callout.stats()["callbacks"].values()):
            raise Refused(f"{drops} records were dropped")
        if self.method.values and (last := self.method.values()[-self.n :]) != [float(i) for i in range(self.n)]:
            raise Refused(f"wrong values arrived: {last[:3]} ... {last[-3:]}")


def _contender(method: Method, shape: tuple[int, ...], pool: bool, fast: int, slow: int) -> Contender:
    loop = Loop(method, shape, slow if method.slow else fast, pool)
    note = "dispatched synchronously: on the calling thread" if pool and method.synchronous else ""
    return Contender(method.label, method.role, loop.play, note)


def _row(kind: str, methods: Sequence[Method], operand: str, pool: bool, rounds: int) -> Row:
    large = operand == "1 MB"
    fast, slow = (500, 200) if large else (20_000, 2_000)
    thread = "pool thread" if pool else "calling thread"
    title = f"{kind}, f32 {operand}, {thread}"
    contenders = [_contender(method, OPERANDS[operand], pool, fast, slow) for method in methods]
    return compare(f"{kind}/{operand}/{'pool' if pool else 'inline'}", title, "us", contenders, rounds)


def values_arrive() -> None:
    """Every value of a tapped loop, each once and in order: what the timed rounds only count."""
    values: list[float] = []
    method = Method("", OURS, lambda x: callout.tap(lambda v: values.append(float(v)), x))
    Loop(method, (), 5_000, False).play()
    callout.barrier_wait()
    if values != [float(i) for i in range(5_000)]:
        raise Refused("callout.tap delivered other values, or in another order, than the loop had")


def run(rounds: int, out: Path, missing: dict[str, str]) -> list[Row]:
    values_arrive()
    rows = []
    for operand in OPERANDS:
        large = operand == "1 MB"
        # With 1 MB XLA splits the program's own work over the pool: there is no one thread to speak of.
        for pool in (False,) if large else (False, True):
            rows.append(_row("call", call_methods(large, missing), operand, pool, rounds))
            rows.append(_row("tap", tap_methods(large, out), operand, pool, rounds))
    return rows
