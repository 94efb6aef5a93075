# SPDX-License-Identifier: Apache-2.0
"""Measures how times grow with sizes over three decades, and fits an exponent."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence

import callout
import jax
import jax.numpy as jnp
import numpy as np
from measure import Contender, Row, compare
from program import OURS, identity

EXPONENT = "exponent"
FITTED = 2  # points of the last decade; constant costs of a program dominate before
DECADES = (1, 10, 100, 1_000)
NULL = callout.sinks.Null()
SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


def exponent(times: dict[int, float]) -> float:
    """Returns the slope between the logarithms of the last points."""
    last = sorted(times.items())[-FITTED:]
    sizes, values = np.log(np.asarray(last)).T
    return float(np.polyfit(sizes, values, 1)[0])


def _seconds(run: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def _call(x: jax.Array) -> jax.Array:
    return callout.pure_callback(identity, SCALAR, x, vmap_method="sequential")


def _running(program: Callable[..., object], *args: object) -> float:
    run = jax.jit(program)

    def once() -> None:
        jax.block_until_ready(run(*args))
        callout.barrier_wait()

    once()
    return _seconds(once)


def records(size: int) -> float:
    """Measures records to a sink, until all are delivered."""
    return _running(lambda x: jax.lax.fori_loop(0, size, lambda i, x: callout.tap(NULL, x + 1), x), jnp.float32(0))


def sites(size: int, of_one: Callable[[jax.Array], jax.Array] = _call) -> float:
    """Measures tracing, lowering and compiling callbacks, each with its own input."""
    xs = [jnp.float32(i) for i in range(size)]
    return _seconds(lambda: jax.jit(lambda xs: [of_one(x) for x in xs]).lower(xs).compile(), 1)


def no_sites(size: int) -> float:
    return sites(size, jnp.sin)


def chain(size: int) -> float:
    def program(x: jax.Array) -> jax.Array:
        for _ in range(size):
            x = jnp.sin(x) * 1.01
            callout.tap(NULL, x)
        return x

    return _seconds(lambda: jax.jit(lambda x: program(x)).lower(jnp.ones(1000)).compile(), 1)


def lanes(size: int) -> float:
    return _running(jax.vmap(_call), jnp.zeros(size))


def leaves(size: int) -> float:
    return _running(lambda xs: callout.tap(NULL, [x + 1 for x in xs]), [jnp.float32(0)] * size)


def bytes_tapped(size: int) -> float:
    return _running(lambda x: callout.tap(NULL, x + 1), jnp.zeros(size * 250))


def bytes_called(size: int) -> float:
    kind = jax.ShapeDtypeStruct((size * 250,), jnp.float32)
    return _running(lambda x: callout.pure_callback(identity, kind, x + 1), jnp.zeros(size * 250))


def threads(size: int) -> float:
    """Measures `size` concurrent programs of 10,000 taps each."""
    run = jax.jit(lambda x: jax.lax.fori_loop(0, 10_000, lambda i, x: callout.tap(NULL, x + 1), x))
    run(jnp.float32(0)).block_until_ready()

    def once() -> None:
        started = [threading.Thread(target=lambda: run(jnp.float32(0)).block_until_ready()) for _ in range(size)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        callout.barrier_wait()

    return _seconds(once)


CURVES: dict[str, tuple[Callable[[int], float], Sequence[int]]] = {
    "records to a sink": (records, (1_000, 10_000, 100_000, 1_000_000)),
    "callbacks of a program, on separate inputs, compiled": (sites, (10, 100, 1_000, 10_000)),
    "sines instead of callbacks": (no_sites, (10, 100, 1_000, 10_000)),
    "taps of a chain, compiled": (chain, DECADES),
    "lanes of a vmap, called in turn": (lanes, DECADES),
    "leaves of a tree, tapped": (leaves, DECADES),
    "KB of a value, tapped": (bytes_tapped, (*DECADES, 10_000)),
    "KB of a value, to Python and back": (bytes_called, (*DECADES, 10_000)),
    "threads, 10,000 taps in each (more than cores: no decades)": (threads, (1, 2, 4, 8)),
}


def _play(measured: Callable[[int], float], sizes: Sequence[int]) -> dict[str, float]:
    times = {size: measured(size) for size in sizes}
    return {**{f"{size:,}": taken * 1e3 for size, taken in times.items()}, EXPONENT: exponent(times)}


def run(rounds: int) -> list[Row]:
    """Returns one row for each range of sizes."""
    rows = []
    by_sizes = sorted(CURVES.items(), key=lambda curve: curve[1][1])
    for sizes, curves in itertools.groupby(by_sizes, key=lambda curve: curve[1][1]):
        contenders = [
            Contender(label, OURS, lambda measured=measured, sizes=sizes: _play(measured, sizes))
            for label, (measured, _) in curves
        ]
        title = f"time by size, {sizes[0]:,} to {sizes[-1]:,}"
        rows.append(compare(f"growth/{sizes[0]}..{sizes[-1]}", title, "ms", contenders, rounds))
    return rows
