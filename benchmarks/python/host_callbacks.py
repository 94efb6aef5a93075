# SPDX-License-Identifier: Apache-2.0
"""Measures `host_callback` beside JAX's ordered debug callbacks: a tap, a print, and a consumer slower than the program.

Usage of the child: python host_callbacks.py callout|jax. Prints a line of JSON.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
from dispatch import Dispatch, plain
from loop import Loop
from measure import Contender, Row, compare
from methods import counter
from program import JAX, OPERANDS, OURS, Method, identity

CALLS, DISPATCHES = 2_000, 500
RECORDS, RECORD_BYTES, QUEUE_BYTES, CONSUMER_S = 60, 8_000_000, 64_000_000, 0.02


class CountingStream:
    """Replaces the terminal, and counts the lines that begin a print."""

    def __init__(self) -> None:
        self.prints = 0

    def write(self, text: str) -> None:
        self.prints += text.count("value")

    def flush(self) -> None:
        pass


@contextmanager
def _standard_output(stream: Any) -> Iterator[None]:
    before, sys.stdout = sys.stdout, stream
    try:
        yield
    finally:
        sys.stdout = before


def _tap(label: str, transform: Callable[..., Any]) -> Method:
    take, received = counter()
    apply = transform(lambda x: hcb.id_tap(lambda value, _: take(value), x))
    return Method(label, OURS, apply, received=received)


def _jax_tap() -> Method:
    take, received = counter()

    def apply(x: jax.Array) -> jax.Array:
        jax.debug.callback(take, x, ordered=True)
        return x

    return Method("jax.debug.callback, ordered", JAX, apply, slow=True, synchronous=True, received=received)


def taps() -> list[Method]:
    return [_tap("id_tap", identity), _tap("id_tap, callout.threaded", callout.threaded), _jax_tap()]


def prints(stream: CountingStream) -> list[Method]:
    def ours(x: jax.Array) -> jax.Array:
        return hcb.id_print(x, what="value", output_stream=stream)

    def jax_print(x: jax.Array) -> jax.Array:
        jax.debug.print("value {}", x, ordered=True)
        return x

    def received() -> int:
        return stream.prints

    return [
        Method("id_print", OURS, ours, received=received),
        Method("id_print, callout.threaded", OURS, callout.threaded(ours), received=received),
        Method("jax.debug.print, ordered", JAX, jax_print, slow=True, synchronous=True, received=received),
    ]


def _into(stream: CountingStream, play: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
    def play_quietly() -> dict[str, float]:
        with _standard_output(stream):
            return play()

    return play_quietly


def _row(kind: str, what: str, rounds: int, make: Callable[[Method], Any], more: list[Method]) -> Row:
    stream = CountingStream()
    methods = [*more, *(taps() if kind == "id_tap" else prints(stream))]
    contenders = []
    for method in methods:
        with _standard_output(stream):
            contender = make(method)
        contenders.append(Contender(method.label, method.role, _into(stream, contender.play)))
    return compare(f"host_callback/{kind}/{what}", f"{kind}, {what}", "us", contenders, rounds)


def run(rounds: int) -> list[Row]:
    rows = []
    for kind in ("id_tap", "id_print"):
        for operand in ("scalar", "1 KB"):
            shape = OPERANDS[operand]
            rows.append(_row(kind, f"f32 {operand} in a loop", rounds, lambda m, s=shape: Loop(m, s, CALLS, False), []))
        rows.append(_row(kind, "dispatched and run", rounds, lambda m: Dispatch(m, DISPATCHES), [plain()]))
    return [*rows, *_slow_consumer(min(rounds, 3))]


def _slow_consumer(rounds: int) -> list[Row]:
    results: dict[str, list[dict[str, float]]] = {"callout": [], "jax": []}

    def child(role: str) -> dict[str, float]:
        command = [sys.executable, str(Path(__file__).resolve()), role]
        figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        results[role].append(figures)
        return {name: value for name, value in figures.items() if name != "peak"}

    title = f"{RECORDS} taps of 8 MB, {CONSUMER_S * 1e3:g} ms each on the host, 64 MB queue"
    labels = {"callout": ("id_tap", OURS), "jax": ("jax.debug.callback, ordered", JAX)}
    times = compare(
        "host_callback/slow",
        title,
        "ms",
        [Contender(*labels[role], lambda role=role: child(role)) for role in labels],
        rounds,
    )
    taken = {role: iter(figures) for role, figures in results.items()}
    peaks = compare(
        "host_callback/slow/memory",
        title,
        "MB",
        [Contender(*labels[role], lambda role=role: {"peak": next(taken[role])["peak"]}) for role in labels],
        rounds,
    )
    return [times, peaks]


def _status(name: str) -> float:
    """Returns a line of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith(name))


def _consume(role: str) -> dict[str, float]:
    callout.config.update("jax_host_callback_max_queue_byte_size", QUEUE_BYTES)
    seen = [0]

    def slow(value: Any, *_: Any) -> None:
        time.sleep(CONSUMER_S)
        seen[0] += 1

    def send(x: jax.Array) -> jax.Array:
        if role == "callout":
            return hcb.id_tap(slow, x)
        jax.debug.callback(slow, x, ordered=True)
        return x

    program = jax.jit(lambda x: jax.lax.fori_loop(0, RECORDS, lambda _, v: send(v) + 1, x))
    x = jax.block_until_ready(jnp.zeros(RECORD_BYTES // 4, jnp.float32))
    program = program.lower(x).compile()
    before = _status("VmRSS")
    start = time.perf_counter()
    jax.block_until_ready(program(x))
    done = time.perf_counter() - start
    hcb.barrier_wait()
    jax.effects_barrier()
    delivered = time.perf_counter() - start
    if seen[0] != RECORDS:
        raise SystemExit(f"{seen[0]} records arrived, not {RECORDS}")
    return {"program": done * 1e3, "delivered": delivered * 1e3, "peak": _status("VmHWM") - before}


if __name__ == "__main__":
    print(json.dumps(_consume(sys.argv[1])))
