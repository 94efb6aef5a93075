# SPDX-License-Identifier: Apache-2.0
"""Measures one call, and one tap, in a `fori_loop`, on the thread that calls the program, and on XLA's pool."""

import time
from collections.abc import Sequence
from pathlib import Path

import callout
import jax
from measure import Contender, Refused, Row, compare
from methods import call_methods, tap_methods
from program import OPERANDS, OURS, CallLoop, Method, steps


class Loop(CallLoop):
    """A loop whose rounds, for taps, also wait until all records are delivered."""

    def play(self) -> dict[str, float]:
        received = self.method.received
        self.before = received() if received else 0
        return super().play()

    def _delivery(self, start: float) -> dict[str, float]:
        received = self.method.received
        if not received:
            return {}
        callout.barrier_wait()
        jax.effects_barrier()
        seconds = time.perf_counter() - start
        self._check_count(received() - self.before)
        return {"delivered": seconds / self.n * 1e6}

    def _check_count(self, count: int) -> None:
        if count != self.n:
            raise Refused(f"{count} records arrived, not {self.n}")
        if drops := sum(c["drops"] for c in callout.stats()["callbacks"].values()):
            raise Refused(f"{drops} records were dropped")
        if self.method.values and (last := self.method.values()[-self.n :]) != [float(i) for i in range(self.n)]:
            raise Refused(f"wrong values arrived: {last[:3]} ... {last[-3:]}")


def _contender(method: Method, operand: str, pool: bool) -> Contender:
    loop = Loop(method, OPERANDS[operand], steps(operand, method.slow), pool)
    note = "dispatched synchronously: on the calling thread" if pool and method.synchronous else ""
    if method.asynchronous and not pool:
        note = "dispatched asynchronously: on a pool thread"
    return Contender(method.label, method.role, loop.play, note)


def _row(kind: str, methods: Sequence[Method], operand: str, pool: bool, rounds: int) -> Row:
    thread = "pool thread" if pool else "calling thread"
    title = f"{kind}, f32 {operand}, {thread}"
    contenders = [_contender(method, operand, pool) for method in methods]
    return compare(f"{kind}/{operand}/{'pool' if pool else 'inline'}", title, "us", contenders, rounds)


def values_arrive() -> None:
    """Checks that every value of a tapped loop arrives once and in order; timed rounds only count values."""
    values: list[float] = []
    method = Method("", OURS, lambda x: callout.tap(lambda v: values.append(float(v)), x))
    Loop(method, (), 5_000, False).play()
    callout.barrier_wait()
    if values != [float(i) for i in range(5_000)]:
        raise Refused("callout.tap delivered other values, or in another order, than the loop had")


def run(rounds: int, out: Path, missing: dict[str, str]) -> list[Row]:
    values_arrive()
    rows = []
    for operand in ("scalar", "1 KB", "1 MB"):
        large = operand == "1 MB"
        # With 1 MB, XLA splits the program's own work over the pool, so that no single thread runs the program.
        for pool in (False,) if large else (False, True):
            rows.append(_row("call", call_methods(large, missing), operand, pool, rounds))
            rows.append(_row("tap", tap_methods(large, out), operand, pool, rounds))
    return rows
