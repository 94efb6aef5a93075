# SPDX-License-Identifier: Apache-2.0
"""Measures taps whose records a loop collects (`flush_interval`), beside taps at each step and JAX's debug callback."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
from measure import Contender, Refused, Row, compare
from program import EMPTY, JAX, OURS

Send = Callable[[Any], Any]
Body = Callable[[Any, Any, Send], Any]  # (index, carry, send) -> carry

INTERVAL = 0.1  # seconds


class TappedLoop:
    """A round is one run of the program, including the wait, and the wait for the delivery of all records."""

    def __init__(self, send: Send, body: Body, x: jax.Array, count: int, records: int, native: bool = True):
        self.fallback = "auto" if native else "always"
        self.program = jax.jit(lambda x: jax.lax.fori_loop(0, count, lambda i, x: body(i, x, send), x))
        self.count, self.records, self.x = count, records, x
        self.play()

    def play(self) -> dict[str, float]:
        callout.config.fallback = self.fallback
        before = _delivered()
        start = time.perf_counter()
        jax.block_until_ready(self.program(self.x))
        seconds = time.perf_counter() - start
        callout.barrier_wait()
        jax.effects_barrier()
        delivered = time.perf_counter() - start
        callout.config.fallback = "auto"
        arrived = _delivered() - before
        if arrived not in (0, self.count * self.records):
            raise Refused(f"{arrived} records arrived, not {self.count * self.records}")
        return {"a step": seconds / self.count * 1e9, "delivered": delivered / self.count * 1e9}


def _delivered() -> int:
    callbacks = callout.stats()["callbacks"]
    return sum(row["calls"] for label, row in callbacks.items() if not label.startswith("progress_clock"))


def _carry(_: Any, x: Any, send: Send) -> Any:
    send(x)
    return x * 0.999 + 0.001


def _fusion(_: Any, x: Any, send: Send) -> Any:
    y = jnp.tanh(x) * x
    send(y)
    return y + 0.5


def _product(_: Any, x: Any, send: Send) -> Any:
    y = x @ x
    send(y[0, 0])
    return y / (1 + jnp.abs(y).max())


def _nested(_: Any, x: Any, send: Send) -> Any:
    return jax.lax.fori_loop(0, 8, lambda i, x: _carry(i, x, send), x)


def _nothing(x: Any) -> Any:
    return x


def _ignore(_: Any) -> None: ...


def _row(key: str, title: str, methods: dict[str, tuple[str, Send, int]], body: Body, x: Any, rounds: int) -> Row:
    contenders = [
        Contender(label, role, TappedLoop(send, body, x, count, 8 if body is _nested else 1).play)
        for label, (role, send, count) in methods.items()
    ]
    return compare(f"chunks/{key}", f"{title}, a step", "ns", contenders, rounds)


def _to(target: Any, flush_interval: float = 0) -> Send:
    return lambda x: callout.tap(target, x, flush_interval=flush_interval)


def _by_jax(rounds: int) -> Row:
    methods = {
        "no tap": (EMPTY, _nothing, 200_000),
        "callout.tap by JAX's callbacks": (OURS, _to(_ignore), 2_000),
        "callout.tap by JAX's callbacks, in chunks": (OURS, _to(_ignore, INTERVAL), 200_000),
        "jax.debug.callback": (JAX, lambda x: jax.debug.callback(_ignore, x), 2_000),
    }
    contenders = [
        Contender(label, role, TappedLoop(send, _carry, jnp.float32(1), count, 1, native=False).play)
        for label, (role, send, count) in methods.items()
    ]
    return compare("chunks/fallback", 'fallback="always", f32 scalar, a step', "ns", contenders, rounds)


class Compilation:
    """A round lowers and compiles a loop with `count` taps."""

    def __init__(self, count: int, flush_interval: float):
        self.count, self.flush_interval = count, flush_interval

    def play(self) -> dict[str, float]:
        sink = callout.sinks.Null()

        def step(_: Any, x: jax.Array) -> jax.Array:
            for i in range(self.count):
                callout.tap(sink, x * i, flush_interval=self.flush_interval)
            return x + 1

        start = time.perf_counter()
        jax.jit(lambda x: jax.lax.fori_loop(0, 1000, step, x)).lower(jnp.float32(0)).compile()
        return {"compilation": (time.perf_counter() - start) * 1e3}


def _compilation(count: int, rounds: int) -> Row:
    contenders = [
        Contender("callout.tap", OURS, Compilation(count, 0).play),
        Contender("callout.tap, in chunks", OURS, Compilation(count, INTERVAL).play),
    ]
    return compare(f"chunks/compile/{count}", f"compile time of a loop with taps: {count}", "ms", contenders, rounds)


def run(rounds: int, out: Path) -> list[Row]:
    sink, lines = callout.sinks.Null(), callout.sinks.JsonLines(out / "chunks.jsonl")
    usual = {
        "no tap": (EMPTY, _nothing, 500_000),
        "callout.tap, sink": (OURS, _to(sink), 50_000),
        "callout.tap, sink, in chunks": (OURS, _to(sink, INTERVAL), 500_000),
        "callout.tap, Python": (OURS, _to(_ignore), 50_000),
        "callout.tap, Python, in chunks": (OURS, _to(_ignore, INTERVAL), 500_000),
    }
    with_jax = {**usual, "jax.debug.callback": (JAX, lambda x: jax.debug.callback(_ignore, x), 2_000)}
    to_file = {
        "no tap": (EMPTY, _nothing, 500_000),
        "callout.tap, JSON lines": (OURS, _to(lines), 50_000),
        "callout.tap, JSON lines, in chunks": (OURS, _to(lines, INTERVAL), 50_000),
    }
    few = {label: (role, send, min(count, 50_000)) for label, (role, send, count) in usual.items()}
    scalar = jnp.float32(1)
    rows = [
        _row("scalar", "a carry, f32 scalar", with_jax, _carry, scalar, rounds),
        _row("fusion", "the result of a fusion, f32 scalar", usual, _fusion, scalar, rounds),
        _row("product", "a number of a 16 x 16 product", few, _product, jnp.eye(16), rounds),
        _row("1 KB", "a carry, f32 1 KB", few, _carry, jnp.ones(256), rounds),
        _row("nested", "inside a loop of 8 steps, f32 scalar", few, _nested, scalar, rounds),
        _row("file", "a carry to a file, f32 scalar", to_file, _carry, scalar, rounds),
        _by_jax(rounds),
    ]
    return [*rows, *(_compilation(count, min(rounds, 3)) for count in (1, 10, 100))]
