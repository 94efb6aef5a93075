# SPDX-License-Identifier: Apache-2.0
"""Measures taps on a GPU. Usage on a machine with a GPU: python benchmarks/python/gpu/taps.py

Three tables:

  stream    The time that one copy to pinned memory and its publication add to a stream, by the driver alone: published by
            a write of the stream, by a host function, and copied on a second stream that the first one waits for. What the
            host needs to queue it is not in it: the stream is stopped until everything is queued.
  program   The time that one tap adds to a step of a jitted loop, from the host's queuing to the end of the stream.
  overlap   A loop of steps of about a millisecond with a tap whose function takes about half of one: if compute and delivery
            overlap, the whole takes as long as the slower of both, and not as long as their sum. With --timeline FILE the
            run is written as a trace (https://ui.perfetto.dev).
"""

import argparse
import contextlib
import ctypes
import io
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from direct import POINTER, Driver
from rows import ON_SOFTWARE, Group, expect, gpu, side_by_side

GROUP = Group("taps")
SIZES = (4, 1 << 10) if ON_SOFTWARE else (4, 1 << 10, 64 << 10, 1 << 20, 16 << 20)
ROUNDS = 1 if ON_SOFTWARE else 9
STEPS = 20 if ON_SOFTWARE else 200
SIDE = 16 if ON_SOFTWARE else 2048


class Stream:
    """A stream that is stopped while it is filled, and timed afterwards."""

    def __init__(self, driver: Driver, size: int):
        self.driver, self.size = driver, size
        self.main, self.side = driver.stream(), driver.stream()
        self.begin, self.end = driver.event(), driver.event()
        self.order = driver.event(2), driver.event(2)
        self.host, self.word, self.gate = driver.pinned(size), driver.pinned(64), driver.pinned(64)
        self.device = driver.memory(size)

    def _copy(self, stream: ctypes.c_void_p) -> None:
        self.driver.call("cuMemcpyDtoHAsync", self.host, self.device, ctypes.c_size_t(self.size), stream)

    def _write(self, stream: ctypes.c_void_p) -> None:
        self.driver.call("cuStreamWriteValue32", stream, ctypes.c_uint64(self.word.value or 0), 1, 0)

    def write_value(self) -> None:
        self._copy(self.main)
        self._write(self.main)

    def host_function(self) -> None:
        self._copy(self.main)
        # `free` of a null pointer does nothing. A Python function would take the GIL.
        function = ctypes.cast(ctypes.CDLL(None).free, POINTER)
        self.driver.call("cuLaunchHostFunc", self.main, function, None)

    def side_stream(self) -> None:
        before, after = self.order
        self.driver.call("cuEventRecord", before, self.main)
        self.driver.call("cuStreamWaitEvent", self.side, before, 0)
        self._copy(self.side)
        self._write(self.side)
        self.driver.call("cuEventRecord", after, self.side)
        self.driver.call("cuStreamWaitEvent", self.main, after, 0)

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[None]:
        if self.driver.function("cuStreamWaitValue32") is None:
            yield
            return
        word = ctypes.cast(self.gate, ctypes.POINTER(ctypes.c_uint32))
        word[0] = 0
        self.driver.call("cuStreamWaitValue32", self.main, ctypes.c_uint64(self.gate.value or 0), 1, 0)
        try:
            yield
        finally:
            word[0] = 1

    def microseconds(self, queue: Callable[[], None], count: int) -> float:
        """Returns the stream's time for each of `count` operations."""
        with self._stopped():
            self.driver.call("cuEventRecord", self.begin, self.main)
            for _ in range(count):
                queue()
            self.driver.call("cuEventRecord", self.end, self.main)
        self.driver.call("cuStreamSynchronize", self.main)
        milliseconds = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), self.begin, self.end)
        return milliseconds.value * 1000 / count


def stream_table(driver: Driver) -> None:
    print("\nstream: microseconds that one tap adds to its stream, median of", ROUNDS)
    print(f"{'bytes':>10} {'copy alone':>12} {'write value':>12} {'host function':>14} {'side stream':>12}")
    for size in SIZES:
        stream = Stream(driver, size)
        ways = [lambda s=stream: s._copy(s.main), stream.write_value, stream.host_function, stream.side_stream]
        count = 20  # each queues six operations, and a launch queue has room for about a thousand
        figures = [statistics.median(stream.microseconds(way, count) for _ in range(ROUNDS)) for way in ways]
        print(f"{size:>10} {figures[0]:>12.2f} {figures[1]:>12.2f} {figures[2]:>14.2f} {figures[3]:>12.2f}")


def _seconds(run: Callable[[], object]) -> float:
    run()  # compiles, and allocates memory
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def program_table() -> None:
    import callout
    import jax
    import jax.numpy as jnp

    steps = STEPS
    sink = callout.sinks.Null()
    print(
        f"\nprogram: microseconds that one tap adds to a step of a loop of {steps}, median of {ROUNDS}; delivered to Null"
    )
    print(f"{'bytes':>10} {'without':>10} {'with':>10} {'added':>10} {'GB/s':>8}")
    for size in SIZES:
        x = jnp.zeros(size // 4, jnp.float32)

        def loop(x: jax.Array, tapped: bool) -> jax.Array:
            return jax.lax.fori_loop(0, steps, lambda _, c: (callout.tap(sink, c) if tapped else c) + 1, x)

        plain, tapping = (jax.jit(lambda x, tapped=tapped: loop(x, tapped)) for tapped in (False, True))
        without = _seconds(lambda f=plain, x=x: f(x).block_until_ready()) / steps * 1e6
        with_tap = _seconds(lambda f=tapping, x=x: (f(x).block_until_ready(), callout.barrier_wait())) / steps * 1e6
        added = with_tap - without
        print(
            f"{size:>10} {without:>10.2f} {with_tap:>10.2f} {added:>10.2f} {size / added / 1e3 if added > 0 else 0:>8.1f}"
        )


def overlap_table(timeline: str | None) -> None:
    import callout
    import jax
    import jax.numpy as jnp

    steps, side = STEPS // 2, SIDE
    taken = []

    def receive(value: object) -> None:
        start = time.perf_counter()
        while time.perf_counter() - start < 0.5e-3:  # works instead of sleeping
            pass
        taken.append(value)

    def loop(m: jax.Array, target: object) -> jax.Array:
        def step(_: object, c: jax.Array) -> jax.Array:
            for _ in range(4):
                c = jnp.tanh(c @ m)
            return c if target is None else callout.tap(target, c.sum()) * 0 + c

        return jax.lax.fori_loop(0, steps, step, m)

    m = jnp.full((side, side), 1e-3, jnp.float32)
    plain, tapping = jax.jit(lambda m: loop(m, None)), jax.jit(lambda m: loop(m, receive))
    compute = _seconds(lambda: plain(m).block_until_ready())
    program = _seconds(lambda: tapping(m).block_until_ready())
    both = _seconds(lambda: (tapping(m).block_until_ready(), callout.barrier_wait()))
    functions = steps * 0.5e-3
    print(f"\noverlap: milliseconds of {steps} steps, median of {ROUNDS}")
    rows = {
        "compute, without taps": compute,
        "tap functions, by themselves": functions,
        "compute with taps, until the program ends": program,
        "compute with taps, until all is delivered": both,
        "if nothing overlapped": compute + functions,
    }
    for what, seconds in rows.items():
        print(f"{what:<45} {seconds * 1e3:>8.1f}")
    if timeline is not None:
        with callout.profile(timeline):
            tapping(m).block_until_ready()
            callout.barrier_wait()
        print(f"timeline: {timeline}")


def _printed(table: Callable[[], None]) -> str:
    """Returns the printed rows of a table, for a cell."""
    gpu()
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        table()
    return "; ".join(" ".join(line.split()) for line in text.getvalue().splitlines() if line.strip())


@GROUP.row("values arrive, in order")
def arrives() -> str:
    import callout
    import jax
    import jax.numpy as jnp

    device = gpu()
    heard: list[Any] = []

    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        def step(_: jax.Array, c: jax.Array) -> jax.Array:
            return callout.tap(heard.append, c) + 1

        return jax.lax.fori_loop(0, 1000, step, x)

    program(jax.device_put(jnp.zeros(4, jnp.float32), device)).block_until_ready()
    callout.barrier_wait()
    expect("values", [[float(i)] * 4 for i in range(1000)], heard)
    return "1000 records"


@GROUP.row("stream time that one tap adds")
def stream_time() -> str:
    return _printed(lambda: stream_table(Driver()))


@GROUP.row("time that one tap adds to a step of a loop")
def program_time() -> str:
    return _printed(program_table)


def _beside_jax(size: int) -> str:
    """Measures a loop's step with a tap to a Python function, and with jax.debug.callback, until all have been delivered."""
    import callout
    import jax
    import jax.numpy as jnp

    steps = 10 if ON_SOFTWARE else 100
    x = jax.device_put(jnp.zeros(size // 4, jnp.float32), gpu())

    def loop(tap: Callable[[Any], object]) -> Any:
        def step(_: Any, c: Any) -> Any:
            tap(c)
            return c + 1

        return jax.jit(lambda x: jax.lax.fori_loop(0, steps, step, x))

    ours: list[Any] = []
    theirs: list[Any] = []
    programs = (
        (loop(lambda c: callout.tap(lambda v: ours.append(v[0]), c)), callout.barrier_wait),
        (loop(lambda c: jax.debug.callback(lambda v: theirs.append(v[0]), c)), jax.effects_barrier),
    )
    figures = []
    for program, barrier in programs:
        figures.append(
            _seconds(lambda p=program, wait=barrier: (p(x).block_until_ready(), wait())) / steps * 1e6  # type: ignore[misc]
        )
    expect("ours", sorted(ours[:steps]), range(steps))
    expect("theirs", sorted(theirs[:steps]), range(steps))
    return side_by_side(["ours", "JAX"], figures)


@GROUP.row("a step with a tap of 4 B to a Python function, beside jax.debug.callback")
def beside_jax() -> str:
    return _beside_jax(4)


@GROUP.row("the same with 1 MB")
def beside_jax_1m() -> str:
    return _beside_jax(1 << 20)


@GROUP.row("compute and delivery overlap")
def overlap() -> str:
    return _printed(lambda: overlap_table(None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeline", metavar="FILE", help="write the overlap as a trace")
    parser.add_argument("--tables", default="stream,program,overlap", help="which, separated by commas")
    arguments = parser.parse_args()
    tables = arguments.tables.split(",")
    if "stream" in tables:
        stream_table(Driver())
    if {"program", "overlap"} & set(tables):
        import jax

        if jax.default_backend() != "gpu":
            sys.exit(f"program, overlap: NOT RUN, JAX's default platform is {jax.default_backend()}")
    if "program" in tables:
        program_table()
    if "overlap" in tables:
        overlap_table(arguments.timeline)


if __name__ == "__main__":
    main()
