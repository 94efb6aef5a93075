# SPDX-License-Identifier: Apache-2.0
"""Measures calls, taps and recorded kernels under bad conditions: changing buffers, large taps, a busy GIL."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import sources
from recordings import OPTIONS
from rows import ON_SOFTWARE, Group, expect, gpu, microseconds, side_by_side

GROUP = Group("costs")
_STEPS = 20


def _ones(size_bytes: int) -> Any:
    import jax.numpy as jnp

    return jnp.ones(size_bytes // 4, jnp.float32, device=gpu())


@GROUP.row("eight recorded launches: the same buffers, other buffers each time")
def other_buffers() -> str:
    import jax

    def program(x: Any) -> Any:
        for _ in range(8):
            x = sources.scale(2.0)(x)
        return x

    compiled = jax.jit(program, compiler_options=OPTIONS)
    kept = [_ones(4096) + i for i in range(24)]  # more sets of buffers than XLA caches graphs for
    for i, x in enumerate(kept):
        expect(f"array {i}", 256 * x, compiled(x))
    turns = itertools.cycle(kept)
    same = microseconds(lambda: [compiled(kept[0]) for _ in range(_STEPS)], calls=_STEPS)
    other = microseconds(lambda: [compiled(next(turns)) for _ in range(_STEPS)], calls=_STEPS)
    return side_by_side(("the same", "others"), (same, other))


@GROUP.row("a step of products without a tap, and with one of 16 MB beside them")
def large_tap() -> str:
    import callout
    import jax

    sink = callout.sinks.Null()
    large = _ones(16 << 20)

    def loop(tapped: bool) -> Any:
        def step(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            value, m = state
            if tapped:
                callout.tap(sink, value)
            return value + 1, (m @ m) * 0.001

        return jax.jit(lambda value, m: jax.lax.fori_loop(0, _STEPS, step, (value, m)))

    m = _ones(4 << 20).reshape(1024, 1024) if not ON_SOFTWARE else _ones(4096).reshape(32, 32)

    def run(program: Any) -> Any:
        result = program(large, m)
        jax.block_until_ready(result)
        callout.barrier_wait()
        return result

    plain, tapped = loop(tapped=False), loop(tapped=True)
    expect("what is tapped", run(plain)[0], run(tapped)[0])
    times = [microseconds(lambda program=program: run(program), calls=_STEPS) for program in (plain, tapped)]
    return side_by_side(("without", "with"), times)


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """Runs a thread that holds the GIL whenever it can."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@GROUP.row("a call of a Python function, and with another thread that works in Python")
def busy_gil() -> str:
    import callout
    import jax

    def add(x: Any) -> Any:
        return x + 1

    x = _ones(4096)
    step = jax.ShapeDtypeStruct(x.shape, x.dtype)
    program = jax.jit(lambda x: jax.lax.fori_loop(0, _STEPS, lambda _, c: callout.pure_callback(add, step, c), x))
    expect("alone", x + _STEPS, program(x))
    theirs = jax.jit(lambda x: jax.lax.fori_loop(0, _STEPS, lambda _, c: jax.pure_callback(add, step, c), x))
    alone = microseconds(lambda: program(x), calls=_STEPS)
    with _busy():
        expect("beside", x + _STEPS, program(x))
        figures = [microseconds(lambda run=run: run(x), repeats=3, calls=_STEPS) for run in (program, theirs)]
    return side_by_side(("alone", "beside", "JAX's pure_callback beside"), (alone, *figures))
