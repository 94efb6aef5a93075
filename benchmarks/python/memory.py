# SPDX-License-Identifier: Apache-2.0
"""Measures memory over many taps, calls and compilations, each in its own process.

Usage of the child: python memory.py WORK COUNT. Prints a line of JSON.
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp

CHUNKS = 10


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _loops(apply: Callable[[jax.Array], jax.Array], count: int) -> Iterator[int]:
    n = count // CHUNKS
    program = jax.jit(lambda x: jax.lax.fori_loop(0, n, lambda _, x: apply(x) + 1, x))
    x = jnp.zeros((), jnp.float32)
    while True:
        program(x).block_until_ready()
        callout.barrier_wait()
        yield n


def taps(count: int) -> Iterator[int]:
    return _loops(lambda x: callout.tap(lambda value: None, x), count)


def slow_taps(count: int) -> Iterator[int]:
    """Taps to a function slower than the program, so that the queue, of the smallest capacity, is mostly full."""
    callout.config.queue_bytes = 16_000_000

    def slow(value: Any) -> None:
        sum(range(40))

    return _loops(lambda x: callout.tap(slow, x), count)


def native_taps(count: int) -> Iterator[int]:
    sink = callout.sinks.Null()
    return _loops(lambda x: callout.tap(sink, x), count)


def calls(count: int) -> Iterator[int]:
    return _loops(lambda x: callout.pure_callback(lambda y: y, jax.ShapeDtypeStruct((), x.dtype), x), count)


def _compilations(make: Callable[[int], Callable[[jax.Array], jax.Array]], count: int) -> Iterator[int]:
    x = jnp.zeros((), jnp.float32)
    n = max(1, count // CHUNKS)
    while True:
        for i in range(n):
            jax.jit(make(i))(x).block_until_ready()
        callout.barrier_wait()
        yield n


def compile_callout(count: int) -> Iterator[int]:
    def make(i: int):
        def apply(x):
            y = callout.pure_callback(lambda v: v + i, jax.ShapeDtypeStruct((), x.dtype), x)
            return callout.tap(lambda v: i, y)

        return apply

    return _compilations(make, count)


def compile_jax(count: int) -> Iterator[int]:
    def make(i: int):
        def apply(x):
            y = jax.pure_callback(lambda v: v + i, jax.ShapeDtypeStruct((), x.dtype), x)
            jax.debug.callback(lambda v: i, y)
            return y

        return apply

    return _compilations(make, count)


def compile_plain(count: int) -> Iterator[int]:
    return _compilations(lambda i: lambda x: x + i, count)


WORK = {f.__name__: f for f in (taps, slow_taps, native_taps, calls, compile_callout, compile_jax, compile_plain)}


def measure(work: str, count: int) -> dict[str, Any]:
    """Returns the resident memory after each tenth of the work; the first two tenths are a warm-up."""
    chunks = WORK[work](count)
    readings, done = [], []
    for _ in range(CHUNKS + 2):
        done.append(next(chunks))
        gc.collect()
        readings.append(resident_bytes())
    live = callout.stats()["live"]
    grown = readings[-1] - readings[1]
    blocked = sum(queue["blocked"] for queue in callout.stats()["queues"])
    return {
        "count": sum(done[2:]),
        "grown_bytes": grown,
        "each_bytes": grown / sum(done[2:]),
        "blocked": blocked,
        "live": live,
    }


def run(full: bool) -> list[dict[str, Any]]:
    many, rounds = (10_000_000, 10_000) if full else (1_000_000, 200)
    plan = [(w, rounds if w.startswith("compile") else many) for w in WORK]
    results = []
    for work, count in plan:
        command = [sys.executable, str(Path(__file__).resolve()), work, str(count)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results.append({"work": work, **json.loads(done.stdout)})
    return results


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
