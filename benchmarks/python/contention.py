# SPDX-License-Identifier: Apache-2.0
"""Measures calls and taps while another Python thread keeps the interpreter busy.

Calls that follow each other within microseconds mostly keep the GIL, because the other thread does not wake up in time
to take it. After a millisecond of other work the other thread has the GIL, and the call waits for CPython's switch
interval.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from loop import Loop
from measure import Contender, Row, compare
from methods import call_methods, tap_methods
from program import OURS, Method

KEPT = {"callout, C++ function", "callout, Python", "callout.tap, Python", "callout.tap, native sink"}


@contextlib.contextmanager
def busy_python() -> Iterator[None]:
    """Runs Python code in a thread during the block."""
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=burn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _contender(method: Method, spaced: bool) -> Contender:
    # Contenders that do not wait for the GIL run so many steps that the wait at the program's end, which all have, is
    # negligible.
    n = 40 if spaced else 1_000 if method.slow else 200_000
    return Contender(method.label, method.role, Loop(method, (), n, False, spaced).play)


def _row(key: str, kind: str, methods: list[Method], spaced: bool, rounds: int) -> Row:
    kept = [_contender(m, spaced) for m in methods if m.role != OURS or m.label in KEPT]
    how = "a matrix product before each" if spaced else "one after the other"
    return compare(key, f"{kind}, f32 scalar, {how}, another Python thread busy", "us", kept, rounds)


def run(rounds: int, out: Path, missing: dict[str, str]) -> list[Row]:
    calls, taps = call_methods(False, missing), tap_methods(False, out)
    with busy_python():
        return [
            _row("busy/call", "call", calls, True, rounds),
            _row("busy/tap", "tap", taps, True, rounds),
            _row("busy/call/dense", "call", calls, False, rounds),
            _row("busy/tap/dense", "tap", taps, False, rounds),
        ]
