# SPDX-License-Identifier: Apache-2.0
"""Measures writing a scalar of every step of a scan: by each native sink, and by JAX's callback with Python's json."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import callout
import jax
import jax.numpy as jnp
from measure import Contender, Refused, Row, compare
from program import EMPTY, JAX, OURS

STEPS = {OURS: 1_000_000, EMPTY: 1_000_000, JAX: 10_000}


def _program(tap: Callable[[jax.Array], Any], steps: int) -> Callable[[float], jax.Array]:
    def step(x, _):
        tap(x)
        return x + 1, None

    return jax.jit(lambda x: jax.lax.scan(step, x, None, length=steps)[0])


def _timed(tap: Callable[[jax.Array], Any], steps: int, wait: Callable[[], Any]) -> dict[str, float]:
    """Returns microseconds for each step: of the program, until everything is written, and of CPU time in all threads."""
    program = _program(tap, steps).lower(jnp.float32(0)).compile()
    wait()
    cpu, start = time.process_time(), time.perf_counter()
    last = program(jnp.float32(0))
    last.block_until_ready()
    ran = time.perf_counter() - start
    wait()
    figures = {"program": ran, "delivered": time.perf_counter() - start, "CPU": time.process_time() - cpu}
    if float(last) != steps:
        raise Refused(f"the program counted to {float(last)}, not {steps}")
    return {name: seconds / steps * 1e6 for name, seconds in figures.items()}


def _native(make: Callable[[Path], Any], check: Callable[[Path], int]) -> Callable[[], dict[str, float]]:
    """Returns a round with a native sink. `check` counts the records in the folder."""

    def play() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sink = make(folder)
            figures = _timed(lambda x: callout.tap(sink, x, name="train"), STEPS[OURS], callout.barrier_wait)
            if (count := check(folder)) != STEPS[OURS]:
                raise Refused(f"{count} records were written, not {STEPS[OURS]}")
            if hasattr(sink, "close"):
                sink.close()
        return figures

    return play


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _json_lines(folder: Path) -> int:
    path = folder / "log"
    with path.open("rb") as file:
        file.seek(-1000, os.SEEK_END)
        last = json.loads(file.read().splitlines()[-1])
    if last["value"] != STEPS[OURS] - 1:
        raise Refused(f"the last line has {last['value']}")
    return _lines(path)


def _event_files(folder: Path) -> int:
    """Counts the records in an event file by their lengths, without the first, which is the file's header."""
    (path,) = folder.iterdir()
    data, at, count = path.read_bytes(), 0, -1
    while at < len(data):
        at += 16 + int.from_bytes(data[at : at + 8], "little")
        count += 1
    return count


def _delivered(label: str) -> Callable[[Path], int]:
    before = [0]

    def check(_: Path) -> int:
        calls = callout.stats()["callbacks"][label]["calls"]
        before[0], since = calls, calls - before[0]
        return since

    return check


def _jax_json() -> dict[str, float]:
    with tempfile.TemporaryFile("w+") as file:

        def write(value: Any) -> None:
            file.write(json.dumps({"name": "train", "time": time.time(), "value": float(value)}) + "\n")

        def wait() -> None:
            jax.effects_barrier()
            file.flush()

        figures = _timed(lambda x: jax.debug.callback(write, x), STEPS[JAX], wait)
        file.seek(0)
        if sorted(json.loads(line)["value"] for line in file) != list(range(STEPS[JAX])):
            raise Refused("not every value was written once")
    return figures


def run(rounds: int) -> list[Row]:
    """Measures each native sink with 1e6 steps, and JAX with 1e4."""
    nothing = os.open(os.devnull, os.O_WRONLY)  # stays open while the process runs
    sinks = callout.sinks
    ours = [
        ("Null", lambda _: sinks.Null(name="bench.written"), _delivered("bench.written")),
        ("Print, to /dev/null", lambda _: sinks.Print(fd=nothing, name="bench.print"), _delivered("bench.print")),
        ("JsonLines", lambda folder: sinks.JsonLines(folder / "log"), _json_lines),
        ("Csv", lambda folder: sinks.Csv(folder / "log"), lambda folder: _lines(folder / "log") - 1),
        ("TensorBoard", sinks.TensorBoard, _event_files),
    ]
    contenders = [
        Contender("scan without taps", EMPTY, lambda: _timed(lambda _: None, STEPS[EMPTY], lambda: None)),
        *(Contender(f"callout.tap, {label}", OURS, _native(make, check)) for label, make, check in ours),
        Contender("jax.debug.callback, json", JAX, _jax_json, "1e4 steps"),
    ]
    return [compare("sinks", "f32 scalar of each of 1e6 steps of a scan, written", "us", contenders, rounds)]
